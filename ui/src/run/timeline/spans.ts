/** When step runs worked and waited, in milliseconds since the start of the run. Pure. */

import type { LoopOutline, Outline, StepRun, StepRunRow, WaitedColumns } from "../../api/types.gen.ts";
import { parkedRuns, RUN_STATUS, type RunStatus, runStatusAt, statusAt } from "../outline/outline.ts";
import { elapsedAt } from "../outline/time.ts";

type Parked = [from: number, to: number, kind: keyof WaitedColumns];

export interface Span {
  run: string;
  step: string;
  scheduled: number;
  started: number; // -1: not yet
  ended: number; // -1: not yet
  status: RunStatus; // the latest one
  statusAt: RunStatus | "never"; // at the event of the view
  retries: number;
  waited: { worker: number; retry: number; external: number };
  parked: Parked[]; // of a loop: while all its started items wait; to is -1 while it lasts
  loop: LoopOutline | null;
  isCritical: boolean;
}

type SegmentKind = "work" | keyof WaitedColumns;

export interface Segment {
  from: number;
  to: number;
  kind: SegmentKind;
}

/** The step runs of an outline at an event, in the order of their scheduling; empty above 5,000 of them. */
export function spansOf(outline: Outline, seq = outline.seq): Span[] {
  const { runs, parked, steps } = outline;
  if (!runs) return [];
  const loops = new Map(outline.loops.map((loop) => [loop.run, loop]));
  const critical = new Set(outline.critical_path);
  const waiting = parkedRuns(parked, seq);
  const retries = new Set(outline.markers.map(({ seq: place, kind }) => kind === "retry" && place));
  const spans = runs.step.map((place, row): Span => {
    const run = `${steps[place]}#${runs.n[row]}`;
    const loop = loops.get(run) ?? null;
    return {
      run,
      step: steps[place]!,
      scheduled: runs.scheduled_ms[row]!,
      started: runs.started_ms[row]!,
      ended: runs.ended_ms[row]!,
      status: RUN_STATUS[runs.status[row]!]!,
      statusAt: runs.scheduled_seq[row]! > seq ? "never" : runStatusAt(runs, row, seq, outline.seq, waiting),
      retries: runs.retries[row]!,
      waited: waitedOf(runs.waited_ms, row),
      parked: loopWaits(loop),
      loop,
      isCritical: critical.has(row),
    };
  });
  for (const [row, run] of (parked?.run ?? []).entries()) {
    const [from, to] = [parked!.from_seq[row]!, parked!.to_seq[row]!];
    const kind = retries.has(from - 1) ? "retry" : "external"; // a step run waits right after its retry is scheduled
    spans[run]?.parked.push([elapsedAt(outline, from), to ? elapsedAt(outline, to) : -1, kind]);
  }
  return spans;
}

function waitedOf({ worker, retry, external }: WaitedColumns, row: number): Span["waited"] {
  return { worker: worker[row] ?? 0, retry: retry[row] ?? 0, external: external[row] ?? 0 };
}

const loopWaits = (loop: LoopOutline | null): Parked[] =>
  loop?.waits.kind.map((kind, row) => [loop.waits.from_ms[row]!, loop.waits.to_ms[row]!, kind]) ?? [];

/** A step run of a page of them at an event, for runs with too many for an outline. */
export function spanOf(row: StepRunRow, outline: Outline, seq: number): Span {
  const loop = outline.loops.find((loop) => loop.run === row.run) ?? null;
  return {
    run: row.run,
    step: outline.steps[row.step] ?? "",
    scheduled: row.scheduled_ms,
    started: row.started_ms,
    ended: row.ended_ms,
    status: RUN_STATUS[row.status]!,
    statusAt:
      row.scheduled_seq > seq ? "never" : statusAt(row.started_seq, row.ended_seq, row.status, seq, outline.seq),
    retries: row.retries,
    waited: row.waited_ms,
    parked: loopWaits(loop),
    loop,
    isCritical: false,
  };
}

/** A step run as work and waits, up to `end` if it has not ended. */
export function segmentsOf(span: Span, end: number): Segment[] {
  const last = span.ended >= 0 ? span.ended : end;
  const segments: Segment[] = [];
  const add = (from: number, to: number, kind: SegmentKind) => {
    if (to > from) segments.push({ from, to, kind });
  };
  if (span.started < 0) {
    add(span.scheduled, last, "worker");
    return segments;
  }
  add(span.scheduled, span.started, "worker");
  let from = span.started;
  for (const [start, stop, kind] of span.parked) {
    const to = Math.min(last, stop < 0 ? last : stop);
    add(from, Math.max(from, start), "work");
    add(Math.max(from, start), to, kind);
    from = Math.max(from, to);
  }
  if (span.started >= last)
    segments.push({ from: last, to: last, kind: "work" }); // too short to be measured
  else add(from, last, "work");
  return segments;
}

/** A step run whose details are loaded knows what each of its waits was for. */
export function withDetails(span: Span, details: StepRun, started: number): Span {
  const at = (text: string) => Date.parse(text) - started;
  const parked = details.waits
    .filter((wait) => wait.item === null && wait.for !== "worker")
    .map((wait): Parked => [at(wait.since), wait.to ? at(wait.to) : -1, wait.for === "retry" ? "retry" : "external"]);
  return parked.length ? { ...span, parked } : span;
}

/** Items in flight over time; a tick for each time that items failed. */
export interface Band {
  times: number[];
  heights: number[]; // 0 to 1
  failures: number[];
}

/** At a point where an item has just ended, it is no longer in flight, and workers report short items when they end:
 *  between points with more ended items, at least the ended one was in flight as well. */
export function bandOf(loop: LoopOutline, outline: Outline): Band {
  const { seq, ok, failed, in_flight } = loop.progress;
  const most = Math.max(1, ...in_flight);
  const times = seq.map((event) => elapsedAt(outline, event));
  const flying = in_flight.map((items, point) => {
    const isWorking = ok[point + 1]! + failed[point + 1]! > ok[point]! + failed[point]!;
    return isWorking ? Math.max(items, Math.min(most, in_flight[point + 1]! + 1)) : items;
  });
  return {
    times,
    heights: flying.map((items) => items / most),
    failures: times.filter((_, point) => failed[point]! > (failed[point - 1] ?? 0)),
  };
}

/** The active step runs of a step over time, for runs with too many for an outline. */
export function stepBand(outline: Outline, step: string): Band | null {
  const counts = outline.by_step?.find((other) => other.step === step);
  if (!counts) return null;
  const most = Math.max(1, ...counts.active);
  const times = outline.histogram.end_ms.slice(0, counts.active.length);
  const ended = counts.active.map((active, bin) => {
    const before = (counts.succeeded[bin - 1] ?? 0) + (counts.failed[bin - 1] ?? 0);
    return active > 0 || counts.succeeded[bin]! + counts.failed[bin]! > before ? Math.max(active, 0.15 * most) : 0;
  });
  return {
    times: times.map((_, bin) => times[bin - 1] ?? 0),
    heights: ended.map((active) => active / most),
    failures: times.filter((_, bin) => counts.failed[bin]! > (counts.failed[bin - 1] ?? 0)),
  };
}

/** The times in which something worked, in order and without overlaps. */
export function busyTimes(outline: Outline, spans: readonly Span[], end: number): [number, number][] {
  const times: [number, number][] = [];
  for (const span of spans)
    for (const { from, to, kind } of segmentsOf(span, end)) if (kind === "work") times.push([from, to]);
  for (const { step } of outline.by_step ?? []) {
    const { times: starts, heights } = stepBand(outline, step)!;
    for (const [bin, height] of heights.entries()) if (height) times.push([starts[bin]!, starts[bin + 1] ?? end]);
  }
  times.sort((one, other) => one[0] - other[0]);
  const merged: [number, number][] = [];
  for (const [from, to] of times) {
    const last = merged.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  return merged;
}

export interface Totals {
  worked: number;
  waited: Span["waited"];
  critical: number | null;
}

export function totalsOf(spans: readonly Span[], end: number): Totals {
  const waited = { worker: 0, retry: 0, external: 0 };
  let [worked, critical] = [0, 0];
  for (const span of spans) {
    const took = Math.max(0, (span.ended >= 0 ? span.ended : end) - span.scheduled);
    const own = waitedUntil(span, end);
    for (const kind of ["worker", "retry", "external"] as const) waited[kind] += own[kind];
    worked += Math.max(0, took - own.worker - own.retry - own.external);
    if (span.isCritical) critical += took;
  }
  return { worked, waited, critical: spans.some((span) => span.isCritical) ? critical : null };
}

/** The time for which a step run has waited, the current wait included. */
function waitedUntil({ waited, status, scheduled, started, parked }: Span, end: number): Span["waited"] {
  const [since = 0, to = 0, kind = "external"] = parked.at(-1) ?? [];
  if (to === -1) return { ...waited, [kind]: waited[kind] + end - since };
  if (status === "scheduled" && started < 0) return { ...waited, worker: waited.worker + end - scheduled };
  return waited;
}
