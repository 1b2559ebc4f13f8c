/** States of a view without content: loading, empty, a problem. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Problem } from "../api/client.ts";
import type { Resource } from "../api/resource.ts";
import { Icon } from "../look/icons.tsx";
import { forbidden, type Role } from "../me.ts";
import { Button } from "./button.tsx";
import { Copy } from "./copy.tsx";
import { inlineCode } from "./inline-code.tsx";
import "./states.css";

/** Placeholders after 150 ms; after 5 s a word and a way out. */
export function Loading({ rows = 6, onCancel }: { rows?: number | undefined; onCancel?: () => void }) {
  const [stage, setStage] = useState<"quiet" | "placeholders" | "slow">("quiet");
  useEffect(() => {
    const first = window.setTimeout(() => setStage("placeholders"), 150);
    const second = window.setTimeout(() => setStage("slow"), 5000);
    return () => {
      window.clearTimeout(first);
      window.clearTimeout(second);
    };
  }, []);
  if (stage === "quiet") return <div class="loading" aria-busy="true" />;
  return (
    <div class="loading" aria-busy="true">
      {stage === "slow" && <p>Still loading {onCancel && <Button onClick={onCancel}>Cancel</Button>}</p>}
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} class={`placeholder w${row % 4}`} />
      ))}
    </div>
  );
}

/** One sentence and the next action. */
export function Empty({ text, children }: { text: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p>{text}</p>
      {children && <div class="empty-actions">{children}</div>}
    </div>
  );
}

export function ProblemBox({ problem, onRetry }: { problem: Problem; onRetry?: () => void }) {
  return (
    <div class="problem" role="alert">
      <Icon name="warning" />
      <div>
        <strong>{problem.title || "The request failed."}</strong>
        {problem.detail && problem.detail !== problem.title && <p>{inlineCode(problem.detail)}</p>}
        <div class="problem-actions">
          {onRetry && <Button onClick={onRetry}>Retry</Button>}
          {problem.requestId && (
            <span class="quiet">
              request <code>{problem.requestId}</code> <Copy text={problem.requestId} what="the request id" />
            </span>
          )}
        </div>
      </div>
    </div>
  );
}

/** A section that the role may not see. */
export function Guarded({ role, children }: { role: Role; children: ComponentChildren }) {
  const why = forbidden(role);
  return why ? <Empty text={why} /> : children;
}

/** The content of a resource, or its placeholder or problem. Old content stays while a reload fails or runs. */
export function Loaded<T>({
  of,
  rows,
  children,
}: {
  of: Resource<T>;
  rows?: number;
  children: (data: T) => ComponentChildren;
}) {
  const [data, problem] = [of.data.value, of.problem.value];
  if (data === undefined && problem) return <ProblemBox problem={problem} onRetry={of.load} />;
  if (data === undefined) return <Loading rows={rows} onCancel={of.cancel} />;
  return <>{children(data)}</>;
}
