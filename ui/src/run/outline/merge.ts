/** An outline with the changes of a frame put in. Pure. */

import type { HistogramColumns, LoopOutline, Outline, OutlineChange } from "../../api/types.gen.ts";

const MAX_BINS = 512;
const MAX_LOOPS = 100; // as many as the server sends
const MAX_POINTS = 400; // of a loop, before every second one is dropped

type Columns = { [name: string]: unknown[] | Columns };

/** The key of a step run is its step and n, of a token its seq, of a loop its run. Omitted parts have not changed, except
 *  for the histogram, which grows by the events of the frame until the outline is loaded again. */
export function mergeOutline(outline: Outline, change: OutlineChange, timestamp: string): Outline {
  const merged: Outline = {
    ...outline,
    seq: change.seq,
    status: change.status,
    ended: change.ended ?? null,
    steps: change.steps ?? outline.steps,
    digests: [...outline.digests, ...(change.digests ?? []).filter(([seq]) => seq > outline.seq)],
    markers: [...outline.markers, ...(change.markers ?? []).filter(({ seq }) => seq > outline.seq)],
  };
  if (change.loops?.length) putLoops(merged, change.loops);
  if (change.runs && merged.runs)
    merged.runs = putRows(merged.runs, change.runs, ({ step, n }, row) => `${step[row]}#${n[row]}`);
  if (change.tokens && outline.tokens)
    merged.tokens = putRows(outline.tokens, change.tokens, ({ enqueued_seq }, row) => String(enqueued_seq[row]));
  if (change.parked && outline.parked)
    merged.parked = putRows(outline.parked, change.parked, ({ run, from_seq }, row) => `${run[row]}@${from_seq[row]}`);
  if (change.arcs?.length) {
    const arcs = new Map(outline.arcs.map((arc) => [`${arc.step}/${arc.arc}`, arc]));
    for (const arc of change.arcs) arcs.set(`${arc.step}/${arc.arc}`, arc);
    merged.arcs = [...arcs.values()];
  }
  const end = Math.max(0, Date.parse(timestamp) - Date.parse(outline.started));
  return merged.seq > outline.seq ? grown(merged, outline.seq, end) : merged;
}

/** A frame has the points of a loop since the frame before it. New loops take the places of the first ones. */
function putLoops(merged: Outline, changed: LoopOutline[]): void {
  const loops = new Map(merged.loops.map((loop) => [loop.run, loop]));
  for (const loop of changed) {
    const before = loops.get(loop.run);
    loops.set(loop.run, before ? { ...loop, progress: joined(before.progress, loop.progress) } : loop);
  }
  merged.loops = [...loops.values()].slice(-MAX_LOOPS);
  const dropped = loops.size - merged.loops.length;
  if (merged.runs && dropped)
    merged.runs = { ...merged.runs, loop: merged.runs.loop.map((place) => Math.max(-1, place - dropped)) };
}

type Progress = LoopOutline["progress"];

function joined(old: Progress, added: Progress): Progress {
  const first = added.seq[0] ?? Number.POSITIVE_INFINITY;
  const end = old.seq.findIndex((seq) => seq >= first);
  const all = (name: keyof Progress) => [...(end < 0 ? old[name] : old[name].slice(0, end)), ...added[name]];
  const points: Progress = { seq: all("seq"), ok: all("ok"), failed: all("failed"), in_flight: all("in_flight") };
  if (points.seq.length <= MAX_POINTS) return points;
  const parity = (points.seq.length - 1) % 2; // the last point stays
  const half = (column: number[]) => column.filter((_, place) => place % 2 === parity);
  return { seq: half(points.seq), ok: half(points.ok), failed: half(points.failed), in_flight: half(points.in_flight) };
}

/** An outline with bins for the events after `known`. Their errors and retries are those that have markers. */
function grown(outline: Outline, known: number, end: number): Outline {
  let wide = outline;
  while (Math.floor((outline.seq - 1) / wide.histogram.events_per_bin) >= MAX_BINS) wide = widened(wide);
  const bins = copyColumns(wide.histogram as unknown as Columns) as unknown as HistogramColumns;
  const width = bins.events_per_bin;
  const begin = bins.end_ms.at(-1) ?? 0;
  for (let seq = known + 1; seq <= outline.seq; ) {
    const bin = Math.floor((seq - 1) / width);
    const last = Math.min(outline.seq, (bin + 1) * width);
    bins.events[bin] = (bins.events[bin] ?? 0) + last - seq + 1;
    bins.errors[bin] ??= 0;
    bins.retries[bin] ??= 0;
    bins.end_ms[bin] = begin + ((end - begin) * (last - known)) / (outline.seq - known);
    seq = last + 1;
  }
  for (const { seq, kind } of outline.markers) {
    if (seq <= known || (kind !== "failure" && kind !== "retry")) continue;
    bins[kind === "failure" ? "errors" : "retries"][Math.floor((seq - 1) / width)]! += 1;
  }
  return { ...wide, histogram: bins };
}

/** An outline whose bins are twice as wide. */
function widened(outline: Outline): Outline {
  const pairs = (column: number[], join: (one: number, other: number | undefined) => number) =>
    column.flatMap((value, place) => (place % 2 ? [] : [join(value, column[place + 1])]));
  const sum = (column: number[]) => pairs(column, (one, other = 0) => one + other);
  const later = (column: number[]) => pairs(column, (one, other) => other ?? one);
  const { events_per_bin, events, errors, retries, end_ms } = outline.histogram;
  return {
    ...outline,
    histogram: {
      events_per_bin: events_per_bin * 2,
      events: sum(events),
      errors: sum(errors),
      retries: sum(retries),
      end_ms: later(end_ms),
    },
    by_step:
      outline.by_step?.map((step) => ({
        ...step,
        active: later(step.active),
        succeeded: later(step.succeeded),
        failed: later(step.failed),
      })) ?? null,
  };
}

/** Rows of columns, replaced if their key exists and appended if it is new. */
function putRows<T extends object>(old: T, changed: T, key: (columns: T, row: number) => string): T {
  const places = new Map<string, number>();
  const length = (columns: T) => (Object.values(columns)[0] as unknown[]).length;
  for (let row = 0; row < length(old); row += 1) places.set(key(old, row), row);
  const result = copyColumns(old as unknown as Columns) as unknown as T;
  for (let row = 0; row < length(changed); row += 1) {
    const name = key(changed, row);
    const at = places.get(name) ?? places.size;
    places.set(name, at);
    putRow(result as unknown as Columns, changed as unknown as Columns, at, row);
  }
  return result;
}

function copyColumns(columns: Columns): Columns {
  const copy = (column: Columns[string]) =>
    Array.isArray(column) ? [...column] : typeof column === "object" ? copyColumns(column) : column;
  return Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, copy(column)]));
}

function putRow(target: Columns, source: Columns, at: number, row: number): void {
  for (const [name, column] of Object.entries(source)) {
    const into = target[name];
    if (Array.isArray(column) && Array.isArray(into)) into[at] = column[row];
    else if (!Array.isArray(column) && into && !Array.isArray(into)) putRow(into, column, at, row);
  }
}
