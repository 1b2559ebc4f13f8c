/** The rows of the timeline: steps, their step runs, and the visits of tasks of those that are expanded. Pure. */

import type { Attempt, Outline, StepRun, Visit } from "../../api/types.gen.ts";
import type { RunStatus, StepState } from "../outline/outline.ts";
import type { Span } from "./spans.ts";

interface Common {
  key: string; // also in the set of expanded rows
  name: string;
  depth: number;
  isExpandable: boolean;
  isExpanded: boolean;
}

export type TimelineRow = Common &
  (
    | { kind: "step"; step: string; spans: Span[]; status: StepState["status"]; runs: number }
    | { kind: "run"; span: Span }
    | { kind: "task"; span: Span; visit: Visit; attempts: Attempt[] }
    | { kind: "more"; step: string }
    | { kind: "note" }
  );

export interface LoadedRuns {
  spans: Span[];
  hasMore: boolean;
}

export interface Loaded {
  /** Details of the step runs that are expanded. */
  details: (run: string) => StepRun | undefined;
  /** Step runs of a step that the outline has no rows of, at the event of the view. */
  runs: (step: string) => LoadedRuns | undefined;
}

export function timelineRows(
  outline: Outline,
  spans: readonly Span[],
  states: ReadonlyMap<string, StepState>,
  expanded: ReadonlySet<string>,
  loaded: Loaded,
): TimelineRow[] {
  const bySteps = new Map<string, Span[]>();
  for (const span of spans) {
    const group = bySteps.get(span.step);
    if (group) group.push(span);
    else bySteps.set(span.step, [span]);
  }
  const rows: TimelineRow[] = [];
  const steps = outline.runs ? [...bySteps.keys()] : (outline.by_step ?? []).map(({ step }) => step);
  for (const step of steps) {
    const group = bySteps.get(step) ?? [];
    const isExpanded = expanded.has(step);
    const state = states.get(step);
    const [status, runs] = [state?.status ?? "never", state?.runs ?? 0];
    rows.push({
      key: step,
      kind: "step",
      name: step,
      depth: 0,
      isExpandable: true,
      isExpanded,
      step,
      spans: group,
      status,
      runs,
    });
    if (!isExpanded) continue;
    if (group.length === 1) addTasks(rows, group[0]!, 1, loaded);
    else if (outline.runs) for (const span of group) addRun(rows, span, expanded, loaded);
    else addLoadedRuns(rows, step, expanded, loaded);
  }
  return rows;
}

function addLoadedRuns(rows: TimelineRow[], step: string, expanded: ReadonlySet<string>, loaded: Loaded): void {
  const page = loaded.runs(step);
  if (!page) {
    rows.push(noteRow(step, 1, "Loading"));
    return;
  }
  for (const span of page.spans) addRun(rows, span, expanded, loaded);
  if (page.hasMore)
    rows.push({
      key: `${step} more`,
      kind: "more",
      name: "Show more step runs",
      depth: 1,
      isExpandable: false,
      isExpanded: false,
      step,
    });
}

function addRun(rows: TimelineRow[], span: Span, expanded: ReadonlySet<string>, loaded: Loaded): void {
  const isExpanded = expanded.has(span.run);
  rows.push({ key: span.run, kind: "run", name: span.run, depth: 1, isExpandable: true, isExpanded, span });
  if (isExpanded) addTasks(rows, span, 2, loaded);
}

function addTasks(rows: TimelineRow[], span: Span, depth: number, loaded: Loaded): void {
  const details = loaded.details(span.run);
  if (!details) {
    rows.push(noteRow(span.run, depth, "Loading"));
    return;
  }
  if (!details.tasks.length) rows.push(noteRow(span.run, depth, span.loop ? "See the Items tab" : "No task has ended"));
  for (const visit of details.tasks) {
    const name = visit.visit > 1 ? `${visit.label} (visit ${visit.visit})` : visit.label;
    const key = `${span.run} ${visit.task} ${visit.visit}`;
    rows.push({
      key,
      kind: "task",
      name,
      depth,
      isExpandable: false,
      isExpanded: false,
      span,
      visit,
      attempts: visit.attempts,
    });
  }
}

function noteRow(key: string, depth: number, name: string): TimelineRow {
  return { key: `${key} note`, kind: "note", name, depth, isExpandable: false, isExpanded: false };
}

/** The status that a row shows, "" for none. */
export function statusOf(row: TimelineRow): RunStatus | StepState["status"] | "" {
  if (row.kind === "step") return row.status;
  if (row.kind === "run") return row.span.statusAt;
  if (row.kind !== "task") return "";
  const last = row.attempts.at(-1)?.status;
  return last === "ok" ? "succeeded" : last === "error" ? "failed" : "running";
}
