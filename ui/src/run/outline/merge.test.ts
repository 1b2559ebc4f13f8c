import assert from "node:assert/strict";
import { test } from "node:test";
import type { Outline, OutlineChange } from "../../api/types.gen.ts";
import { mergeOutline } from "./merge.ts";
import { emptyOutline, outlineOf, randomLog } from "./samples.ts";

const STEPS = 3;

/** What a frame has of an outline: the rows that the events after `known` have changed. */
function changeOf(outline: Outline, known: number): OutlineChange {
  const changed = <T extends object>(columns: T, seqs: (keyof T)[]): T | null => {
    const rows = (columns[seqs[0]!] as number[]).map((_, row) => row);
    const touched = rows.filter((row) => seqs.some((name) => (columns[name] as number[])[row]! > known));
    const pick = (part: object): object =>
      Object.fromEntries(
        Object.entries(part).map(([name, column]) => [
          name,
          Array.isArray(column) ? touched.map((row) => column[row]) : pick(column),
        ]),
      );
    return touched.length ? (pick(columns) as T) : null;
  };
  return {
    seq: outline.seq,
    status: outline.status,
    steps: outline.steps,
    runs: outline.runs!,
    parked: changed(outline.parked!, ["from_seq", "to_seq"]),
    tokens: changed(outline.tokens!, ["enqueued_seq", "consumed_seq", "held_seq"]),
  };
}

const NO_WAITS = { kind: [], from_ms: [], to_ms: [] };

test("frames bring an outline up to date", () => {
  for (let seed = 1; seed <= 20; seed += 1) {
    const log = randomLog(seed, 120, STEPS);
    let merged = outlineOf(log.slice(0, 20), STEPS);
    for (let seq = 33; seq <= 120; seq += 29) {
      const whole = outlineOf(log.slice(0, seq), STEPS);
      const timestamp = new Date(Date.parse(whole.started) + (seq - 1) * 10).toISOString();
      merged = mergeOutline(merged, changeOf(whole, merged.seq), timestamp);
      for (const part of ["seq", "runs", "parked", "tokens"] as const) assert.deepEqual(merged[part], whole[part]);
      assert.deepEqual(merged.histogram.events, whole.histogram.events);
      const ends = merged.histogram.end_ms.map(Math.round);
      assert.deepEqual(ends, whole.histogram.end_ms);
    }
  }
});

test("a run that goes on has no end, and what is new is appended", () => {
  const outline: Outline = { ...emptyOutline(), seq: 4, ended: "2026-11-17T12:00:01Z", digests: [[1, "a"]] };
  outline.markers = [{ seq: 2, kind: "retry", entity: "x" }];
  const change: OutlineChange = {
    seq: 6,
    status: "running",
    digests: [[5, "b"]],
    markers: [
      { seq: 2, kind: "retry", entity: "x" },
      { seq: 6, kind: "failure", entity: "y" },
    ],
  };
  const merged = mergeOutline(outline, change, "2026-11-17T12:00:02Z");
  assert.equal(merged.ended, null);
  assert.deepEqual(merged.digests, [
    [1, "a"],
    [5, "b"],
  ]);
  assert.deepEqual(
    merged.markers.map(({ seq }) => seq),
    [2, 6],
  );
  assert.equal(merged.histogram.errors[5], 1);
});

test("points of a loop are appended, and thinned when they are many", () => {
  const point = (seq: number) => ({ seq: [seq], ok: [seq], failed: [0], in_flight: [1] });
  const loops = (seq: number) => [{ run: "a#1", total: 1000, progress: point(seq), waits: NO_WAITS }];
  let outline: Outline = { ...emptyOutline(), seq: 1, loops: loops(1) };
  for (let seq = 2; seq <= 900; seq += 1)
    outline = mergeOutline(outline, { seq, status: "running", loops: loops(seq) }, outline.started);
  const { progress } = outline.loops[0]!;
  assert.ok(progress.seq.length <= 400 && progress.seq.at(-1) === 900);
  assert.deepEqual(progress.seq, progress.ok);
});

test("the latest 100 loops stay, and step runs know their places", () => {
  const progress = { seq: [1], ok: [1], failed: [0], in_flight: [0] };
  let outline: Outline = { ...emptyOutline(), steps: ["a"] };
  for (let n = 1; n <= 150; n += 1) {
    const row = { ...emptyOutline().runs!, step: [0], n: [n], loop: [Math.min(99, n - 1)] };
    const loops = [{ run: `a#${n}`, total: 1, progress, waits: NO_WAITS }];
    outline = mergeOutline(outline, { seq: n, status: "running", runs: row, loops }, outline.started);
  }
  assert.equal(outline.loops.length, 100);
  outline.runs!.loop.forEach((place, row) => {
    assert.equal(outline.loops[place]?.run, row < 50 ? undefined : `a#${row + 1}`);
  });
});

test("the histogram never has more than 512 bins", () => {
  let outline: Outline = {
    ...emptyOutline(),
    by_step: [{ step: "a", runs: 1, active: [], succeeded: [], failed: [] }],
  };
  for (let seq = 100; seq <= 5_000; seq += 100)
    outline = mergeOutline(outline, { seq, status: "running" }, "2026-11-17T12:00:01Z");
  const { events, errors, end_ms, events_per_bin } = outline.histogram;
  assert.equal(events_per_bin, 16);
  assert.ok(events.length <= 512 && errors.length === events.length && end_ms.length === events.length);
  assert.equal(
    events.reduce((sum, count) => sum + count, 0),
    5_000,
  );
});
