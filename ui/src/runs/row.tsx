import type { ExecutionSummary } from "../api/types.gen.ts";
import { now } from "../clock.ts";
import { Icon } from "../look/icons.tsx";
import { Status, StatusIcon } from "../look/status.tsx";
import { Elapsed, Moment } from "../parts/moment.tsx";
import { ProgressBar } from "../parts/progress.tsx";
import { href } from "../routes.ts";
import { activityText } from "../text/activity.ts";
import { shortId } from "../text/number.ts";

function runTitle(run: ExecutionSummary): string {
  return run.version === null ? run.path || run.name : `${run.path}@${run.version}`;
}

function Activity({ run }: { run: ExecutionSummary }) {
  const isLooping = run.progress && run.status === "running";
  const text = activityText(run, now.value);
  return (
    <>
      {run.failed_items > 0 && run.status === "succeeded" && (
        <span class="tone-waiting runs-mark">
          <Icon name="warning" />
        </span>
      )}
      <span class={`cut ${run.status === "failed" ? "tone-failed" : ""}`} title={text}>
        {text}
      </span>
      {isLooping && run.progress && <ProgressBar {...run.progress} />}
    </>
  );
}

interface RowProps {
  run: ExecutionSummary;
  selected: boolean;
  onSelect: (isRange: boolean) => void;
}

/** The cells of a row on a wide screen. */
export function WideRow({ run, selected, onSelect }: RowProps) {
  return (
    <div class="runs-row" role="presentation">
      <span role="gridcell" class="runs-check">
        <input
          type="checkbox"
          checked={selected}
          aria-label={`Select ${runTitle(run)}`}
          onClick={(event) => onSelect(event.shiftKey)}
        />
      </span>
      <span role="gridcell">
        <Status status={run.status} />
      </span>
      <span role="gridcell" class="cut">
        <a href={href("run", { id: run.execution_id })} title={run.execution_id}>
          {runTitle(run)}
        </a>
        {run.local && (
          <span class="badge" title="Runs in a local process">
            local
          </span>
        )}
      </span>
      <span role="gridcell" class="runs-activity">
        <Activity run={run} />
      </span>
      <span role="gridcell">
        <Moment at={run.started} />
      </span>
      <span role="gridcell">
        <Elapsed from={run.started} to={run.ended} ms={run.ended ? run.duration_ms : null} />
      </span>
      <span role="gridcell" class="cut secondary">
        {triggerText(run)}
      </span>
    </div>
  );
}

/** A row as a card of three lines, for phones. */
export function NarrowRow({ run }: { run: ExecutionSummary }) {
  return (
    <div role="gridcell" class="runs-card-cell">
      <a class="runs-card" href={href("run", { id: run.execution_id })}>
        <span class="runs-card-title">
          <StatusIcon status={run.status} />
          <span class="hidden-text">{run.status}</span>
          <strong class="cut">{runTitle(run)}</strong>
          <span class="secondary">
            <Elapsed from={run.started} to={run.ended} ms={run.ended ? run.duration_ms : null} />
          </span>
        </span>
        <span class="runs-activity">
          <Activity run={run} />
        </span>
        <span class="quiet">
          <Moment at={run.started} />, {triggerText(run)}
        </span>
      </a>
    </div>
  );
}

export function triggerText({ trigger }: Pick<ExecutionSummary, "trigger">): string {
  if (!trigger) return "-";
  if (trigger.kind === "fork" || trigger.kind === "child") return `${trigger.kind} of ${shortId(trigger.name)}`;
  return trigger.name || trigger.kind;
}
