import { Icon } from "../../look/icons.tsx";
import { StatusIcon, statusWord } from "../../look/status.tsx";
import { count, counted } from "../../text/number.ts";
import { duration } from "../../text/time.ts";
import { statusOf, type TimelineRow } from "./rows.ts";
import type { Span } from "./spans.ts";

/** The label of a row. It describes the bar beside it, which is a picture. */
export function TimelineLabel({
  row,
  end,
  isPast,
  onToggle,
}: {
  row: TimelineRow;
  end: number; // the event of the view, in milliseconds since the start
  isPast: boolean;
  onToggle: () => void;
}) {
  const status = statusOf(row);
  return (
    <div role="gridcell" class="timeline-label" style={{ paddingInlineStart: `${4 + row.depth * 16}px` }}>
      {row.isExpandable ? (
        <button
          type="button"
          class="timeline-toggle"
          tabIndex={-1}
          aria-label={`${row.isExpanded ? "Collapse" : "Expand"} ${row.name}`}
          aria-expanded={row.isExpanded}
          onClick={onToggle}
        >
          <Icon name={row.isExpanded ? "down" : "right"} />
        </button>
      ) : (
        <span class="timeline-toggle" />
      )}
      {status && <StatusIcon status={status} />}
      <span class={`cut timeline-name${row.kind === "note" ? " quiet" : ""}`} title={row.name}>
        {row.name}
      </span>
      {row.kind === "step" && row.runs > 1 && <span class="quiet">x{count(row.runs)}</span>}
      <span class="timeline-took">{tookOf(row, end)}</span>
      <span class="hidden-text">{factsOf(row, isPast)}</span>
    </div>
  );
}

function tookOf(row: TimelineRow, end: number): string {
  const all = row.kind === "step" ? row.spans : row.kind === "run" ? [row.span] : [];
  const spans = all.filter(({ statusAt }) => statusAt !== "never");
  if (row.kind === "task") return duration(row.attempts.reduce((sum, attempt) => sum + (attempt.duration_ms ?? 0), 0));
  if (!spans.length) return "";
  return duration(
    spans.reduce(
      (sum, span) => sum + Math.max(0, (span.ended >= 0 ? Math.min(span.ended, end) : end) - span.scheduled),
      0,
    ),
  );
}

function factsOf(row: TimelineRow, isPast: boolean): string {
  if (row.kind === "task") return `${row.visit.kind}, ${counted(row.attempts.length, "attempt")}`;
  if (row.kind === "step" && row.spans.length !== 1) return counted(row.runs, "step run");
  const span = row.kind === "step" ? row.spans[0] : row.kind === "run" ? row.span : null;
  if (!span) return "";
  const status = statusWord(statusOf(row));
  return isPast ? status : `${status}${spanFacts(span)}`; // the rest is that of the whole run
}

function spanFacts(span: Span): string {
  const { worker, retry, external } = span.waited;
  const facts = [""];
  if (worker) facts.push(`waited ${duration(worker)} for a worker`);
  if (retry) facts.push(`waited ${duration(retry)} for retries`);
  if (external) facts.push(`waited ${duration(external)} for signals, timers or children`);
  if (span.retries) facts.push(counted(span.retries, "retry", "retries"));
  if (span.loop) {
    const { ok, failed } = span.loop.progress;
    facts.push(`${count(ok.at(-1) ?? 0)} of ${count(span.loop.total)} items, ${count(failed.at(-1) ?? 0)} failed`);
  }
  if (span.isCritical) facts.push("on the critical path");
  return facts.join(", ");
}
