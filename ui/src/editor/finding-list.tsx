import type { Finding } from "../api/types.gen.ts";
import { Icon } from "../look/icons.tsx";
import { Button } from "../parts/button.tsx";
import { inlineCode } from "../parts/inline-code.tsx";
import "./finding-list.css";

/** Problems of a playbook: place, severity, code, message, hint. */
export function FindingList({
  findings,
  active,
  onShow,
  onFix,
  onExplain,
}: {
  findings: Finding[];
  active?: number;
  onShow?: (finding: Finding, place: number) => void;
  onFix?: (finding: Finding) => void;
  onExplain?: (finding: Finding) => void;
}) {
  return (
    <ul class="finding-list">
      {findings.map((finding, place) => (
        <li key={`${finding.line}:${finding.column}:${finding.code}`} class={place === active ? "active" : ""}>
          <span class={`finding-mark ${finding.severity}`}>
            <Icon name="warning" />
            {finding.severity}
          </span>
          <button type="button" class="finding-place" onClick={() => onShow?.(finding, place)}>
            <code>
              {finding.line}:{finding.column}
            </code>
          </button>
          <span class="finding-text">
            {inlineCode(sentence(finding.message))}
            {finding.hint && <span class="secondary"> {inlineCode(sentence(finding.hint))}</span>}{" "}
            {onExplain ? (
              <button type="button" class="finding-code mono" onClick={() => onExplain(finding)}>
                {finding.code}
              </button>
            ) : (
              <code class="quiet">{finding.code}</code>
            )}
          </span>
          {finding.fix && onFix && (
            <Button label={`Replace with ${finding.fix.text}`} onClick={() => onFix(finding)}>
              Fix
            </Button>
          )}
        </li>
      ))}
    </ul>
  );
}

function sentence(text: string): string {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.?]$/.test(whole) ? whole : `${whole}.`;
}
