import { useSignal } from "@preact/signals";
import { get } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import type { StepRunPage } from "../../api/types.gen.ts";
import { StatusIcon, statusWord } from "../../look/status.tsx";
import { Button } from "../../parts/button.tsx";
import { Moment } from "../../parts/moment.tsx";
import { Loaded } from "../../parts/states.tsx";
import { toastProblem } from "../../parts/toast.tsx";
import { counted } from "../../text/number.ts";
import { duration } from "../../text/time.ts";
import type { RunModel } from "../model.ts";
import { parkedRuns, runStatusAt, statusAt } from "../outline/outline.ts";
import { select } from "../selection.ts";
import { partPath } from "./following.tsx";

const PAGE = 100;

interface RunRow {
  run: string;
  status: string;
  startedMs: number; // after the start of the run; -1: not yet
  durationMs: number | null;
  retries: number;
}

/** The step runs of a step at the event of the view: from the outline, newest first, or page by page if it has none. */
export function StepRunList({ model, step, label }: { model: RunModel; step: string; label: string }) {
  const shown = useSignal(PAGE);
  if (!model.outline.value?.runs) return <PagedRuns model={model} step={step} label={label} />;
  const rows = outlineRows(model, step);
  return (
    <RunRows
      model={model}
      label={label}
      rows={rows.slice(0, shown.value)}
      onMore={
        rows.length > shown.value &&
        (() => {
          shown.value += PAGE;
        })
      }
    />
  );
}

/** The name of the latest run of a step that was scheduled before the event of the view, "" if there is none. */
export function runName(model: RunModel, step: string): string {
  return outlineRows(model, step)[0]?.run ?? "";
}

function outlineRows(model: RunModel, step: string): RunRow[] {
  const [outline, at] = [model.outline.value, model.at.value];
  const runs = outline?.runs;
  if (!outline || !runs) return [];
  const parked = parkedRuns(outline.parked, at);
  const rows: RunRow[] = [];
  for (let row = runs.step.length - 1; row >= 0; row -= 1) {
    if (outline.steps[runs.step[row]!] !== step || runs.scheduled_seq[row]! > at) continue;
    const hasEnded = runs.ended_seq[row]! > 0 && runs.ended_seq[row]! <= at;
    const started = runs.started_ms[row]!;
    rows.push({
      run: `${step}#${runs.n[row]}`,
      status: runStatusAt(runs, row, at, outline.seq, parked),
      startedMs: started,
      durationMs: hasEnded && started >= 0 ? runs.ended_ms[row]! - started : null,
      retries: runs.retries[row]!,
    });
  }
  return rows;
}

function PagedRuns({ model, step, label }: { model: RunModel; step: string; label: string }) {
  const first = useResource<StepRunPage>(partPath(model, "step-runs", { step, limit: PAGE }));
  const more = useSignal<StepRunPage | null>(null);
  return (
    <Loaded of={first}>
      {(page) => {
        const items = [...page.items, ...(more.value?.items ?? [])];
        const next = more.value ? more.value.next : page.next;
        const load = async () => {
          try {
            const part = await get<StepRunPage>(model.path("step-runs"), { query: { step, limit: PAGE, after: next } });
            more.value = { items: [...(more.value?.items ?? []), ...part.items], next: part.next };
          } catch (error) {
            toastProblem("The step runs were not loaded", error);
          }
        };
        const [outline, at] = [model.outline.value!, model.at.value];
        const rows = items
          .filter((item) => item.scheduled_seq <= at)
          .map((item) => ({
            run: item.run,
            status: statusAt(item.started_seq, item.ended_seq, item.status, at, outline.seq),
            startedMs: item.started_ms,
            durationMs: item.ended_seq && item.ended_seq <= at ? item.ended_ms - item.started_ms : null,
            retries: item.retries,
          }));
        return <RunRows model={model} label={label} rows={rows} onMore={next !== null && load} />;
      }}
    </Loaded>
  );
}

interface RunRowsProps {
  model: RunModel;
  label: string;
  rows: RunRow[];
  onMore: false | (() => void);
}

function RunRows({ model, label, rows, onMore }: RunRowsProps) {
  const started = Date.parse(model.outline.value?.started ?? "");
  return (
    <>
      <ul class="run-rows" aria-label={label}>
        {rows.map(({ run, status, startedMs, durationMs, retries }) => (
          <li key={run}>
            <button type="button" onClick={() => select({ run })}>
              <StatusIcon status={status} />
              <strong class="cut">{run}</strong>
              <span>{statusWord(status)}</span>
              {retries > 0 && <span class="quiet">{counted(retries, "retry", "retries")}</span>}
              <span class="quiet">{startedMs >= 0 ? <Moment at={started + startedMs} /> : "-"}</span>
              <span>{duration(durationMs)}</span>
            </button>
          </li>
        ))}
      </ul>
      {onMore && (
        <div class="more">
          <Button onClick={onMore}>Show more</Button>
        </div>
      )}
    </>
  );
}
