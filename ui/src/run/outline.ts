/** The outline of a run as columns, and what it says about the run at any event. Pure. */

import type { Outline, OutlineChange } from "../api/types.gen.ts";

export const RUN_STATUS = ["scheduled", "running", "waiting", "succeeded", "failed", "skipped", "cancelled"] as const;
export type RunStatus = (typeof RUN_STATUS)[number];

type Columns = { [name: string]: unknown[] | Columns };

/** An outline with a change of a frame put in. Step runs are known by step and n, tokens by their seq, loops by run. */
export function mergeOutline(outline: Outline, change: OutlineChange): Outline {
  const merged: Outline = { ...outline, seq: change.seq, status: change.status };
  if (change.ended != null) merged.ended = change.ended;
  if (change.steps) merged.steps = change.steps;
  if (change.digests) merged.digests = change.digests;
  if (change.runs && outline.runs) {
    const { step, n } = outline.runs;
    merged.runs = putRows(
      outline.runs,
      change.runs,
      (columns, row) => `${columns.step[row]}#${columns.n[row]}`,
      step.length && n.length,
    );
  }
  if (change.tokens && outline.tokens)
    merged.tokens = putRows(
      outline.tokens,
      change.tokens,
      (columns, row) => String(columns.enqueued_seq[row]),
      outline.tokens.step.length,
    );
  if (change.parked && outline.parked)
    merged.parked = putRows(
      outline.parked,
      change.parked,
      (columns, row) => `${columns.run[row]}@${columns.from_seq[row]}`,
      outline.parked.run.length,
    );
  if (change.loops?.length) merged.loops = putByKey(outline.loops, change.loops, (loop) => loop.run);
  if (change.arcs?.length) merged.arcs = putByKey(outline.arcs, change.arcs, (arc) => `${arc.step}/${arc.arc}`);
  if (change.markers?.length) merged.markers = [...outline.markers, ...change.markers];
  return merged;
}

function putByKey<T>(old: T[], changed: T[], key: (item: T) => string): T[] {
  const all = new Map(old.map((item) => [key(item), item]));
  for (const item of changed) all.set(key(item), item);
  return [...all.values()];
}

/** Rows of columns, replaced where their key is known and appended where it is new. */
function putRows<T extends object>(old: T, changed: T, key: (columns: T, row: number) => string, length: number): T {
  const places = new Map<string, number>();
  for (let row = 0; row < length; row += 1) places.set(key(old, row), row);
  const result = copyColumns(old as unknown as Columns) as unknown as T;
  const first = Object.values(changed)[0] as unknown[];
  for (let row = 0; row < first.length; row += 1) {
    const name = key(changed, row);
    const at = places.get(name) ?? places.size;
    places.set(name, at);
    putRow(result as unknown as Columns, changed as unknown as Columns, at, row);
  }
  return result;
}

function copyColumns(columns: Columns): Columns {
  return Object.fromEntries(
    Object.entries(columns).map(([name, column]) => [name, Array.isArray(column) ? [...column] : copyColumns(column)]),
  );
}

function putRow(target: Columns, source: Columns, at: number, row: number): void {
  for (const [name, column] of Object.entries(source)) {
    const into = target[name];
    if (Array.isArray(column) && Array.isArray(into)) into[at] = column[row];
    else if (!Array.isArray(column) && into && !Array.isArray(into)) putRow(into, column, at, row);
  }
}
