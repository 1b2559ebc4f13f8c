import assert from "node:assert/strict";
import { test } from "node:test";
import type { StepRun, StepRunRow } from "../../api/types.gen.ts";
import { stepStates } from "../outline/outline.ts";
import { emptyOutline, outlineOf, randomLog } from "../outline/samples.ts";
import { timelineRows } from "./rows.ts";
import { bandOf, busyTimes, segmentsOf, spanOf, spansOf, stepBand, totalsOf } from "./spans.ts";

const NOTHING = { details: () => undefined, runs: () => undefined };
const NO_WAITS = { kind: [], from_ms: [], to_ms: [] };
const outline = outlineOf(randomLog(7, 200, 3), 3);
const spans = spansOf(outline);
const rowsOf = (expanded: string[], loaded = NOTHING) =>
  timelineRows(outline, spans, stepStates(outline, outline.seq), new Set(expanded), loaded).map(({ name }) => name);

test("steps are rows, and expanded ones have their step runs below", () => {
  assert.deepEqual(rowsOf([]).toSorted(), ["step0", "step1", "step2"]);
  const runs = spans.filter(({ step }) => step === "step1").map(({ run }) => run);
  assert.ok(runs.length > 1);
  const rows = rowsOf(["step1"]);
  const at = rows.indexOf("step1");
  assert.deepEqual(rows.slice(at + 1, at + 1 + runs.length), runs);
});

test("an expanded step run has its tasks below once they are loaded", () => {
  const visit = { task: "get", label: "get", kind: "http", visit: 2, attempts: [] };
  const details = { tasks: [visit] } as unknown as StepRun;
  const loaded = { ...NOTHING, details: () => details };
  const run = spans.find(({ step }) => step === "step1")!.run;
  assert.ok(rowsOf(["step1", run]).includes("Loading"));
  assert.ok(rowsOf(["step1", run], loaded as unknown as typeof NOTHING).includes("get (visit 2)"));
});

test("the segments of a step run cover it without overlaps", () => {
  const end = 5000;
  for (const span of spans) {
    const segments = segmentsOf(span, end);
    let at = span.scheduled;
    for (const { from, to } of segments) {
      assert.ok(from >= at && to >= from, span.run);
      at = to;
    }
    assert.equal(at, span.ended >= 0 ? span.ended : end, span.run);
    const waits = segments.filter(({ kind }) => kind === "external").length;
    assert.equal(waits > 0, span.parked.length > 0, span.run);
  }
});

test("busy times are in order and have all work", () => {
  const busy = busyTimes(outline, spans, 5000);
  for (const [place, [from, to]] of busy.entries()) assert.ok(from <= to && from > (busy[place - 1]?.[1] ?? -1));
  for (const span of spans)
    for (const { from, to, kind } of segmentsOf(span, 5000))
      if (kind === "work") assert.ok(busy.some((time) => time[0] <= from && to <= time[1]));
});

test("worked and waited add up to the time that the step runs took", () => {
  const span = { ...spans[0]!, scheduled: 0, started: 10, ended: 100, status: "succeeded" as const, isCritical: true };
  const totals = totalsOf([{ ...span, waited: { worker: 10, retry: 5, external: 25 } }], 200);
  assert.deepEqual(totals, { worked: 60, waited: { worker: 10, retry: 5, external: 25 }, critical: 100 });
  assert.equal(totalsOf([{ ...span, isCritical: false }], 200).critical, null);
  const waits = {
    ...span,
    ended: -1,
    status: "waiting" as const,
    parked: [[20, -1, "external"] as [number, number, "external"]],
  };
  assert.deepEqual(totalsOf([waits], 200), {
    worked: 20,
    waited: { worker: 0, retry: 0, external: 180 },
    critical: 200,
  });
});

test("a wait for a retry is one from its beginning", () => {
  const waiting = emptyOutline();
  waiting.seq = 3;
  waiting.steps = ["a"];
  Object.assign(waiting.runs!, {
    ...{ step: [0], n: [1], scheduled_seq: [1], started_seq: [1], ended_seq: [0] },
    ...{ scheduled_ms: [0], started_ms: [0], ended_ms: [-1], status: [2], retries: [1], loop: [-1], from_runs: [[]] },
  });
  waiting.parked = { run: [0], from_seq: [3], to_seq: [0] };
  waiting.histogram = {
    events_per_bin: 1,
    events: [1, 1, 1],
    errors: [0, 1, 0],
    retries: [0, 1, 0],
    end_ms: [0, 9, 10],
  };
  const kinds = () => segmentsOf(spansOf(waiting)[0]!, 50).map(({ kind }) => kind);
  assert.deepEqual(kinds(), ["work", "external"]);
  waiting.markers = [{ seq: 2, kind: "retry", entity: "a#1/t#1" }];
  assert.deepEqual(kinds(), ["work", "retry"]);
  assert.deepEqual(totalsOf(spansOf(waiting), 50).waited, { worker: 0, retry: 40, external: 0 });
});

test("a loop does not work while all its started items wait", () => {
  const looping = emptyOutline();
  looping.seq = 3;
  looping.steps = ["a"];
  Object.assign(looping.runs!, {
    ...{ step: [0], n: [1], scheduled_seq: [1], started_seq: [1], ended_seq: [0] },
    ...{ scheduled_ms: [0], started_ms: [5], ended_ms: [-1], status: [1], retries: [1], loop: [0], from_runs: [[]] },
    waited_ms: { worker: [5], retry: [10], external: [0] },
  });
  const waits = { kind: ["retry" as const, "external" as const], from_ms: [20, 40], to_ms: [30, -1] };
  const progress = { seq: [2], ok: [0], failed: [0], in_flight: [0] };
  looping.loops = [{ run: "a#1", total: 2, progress, waits }];
  const looped = spansOf(looping);
  assert.deepEqual(
    segmentsOf(looped[0]!, 100).map(({ from, to, kind }) => [from, to, kind]),
    [
      [0, 5, "worker"],
      [5, 20, "work"],
      [20, 30, "retry"],
      [30, 40, "work"],
      [40, 100, "external"],
    ],
  );
  assert.deepEqual(totalsOf(looped, 100), {
    worked: 25,
    waited: { worker: 5, retry: 10, external: 60 },
    critical: null,
  });
  assert.deepEqual(busyTimes(looping, looped, 100), [
    [5, 20],
    [30, 40],
  ]);
});

test("a loop is a band with a tick for each failure, and so are the steps of a very long run", () => {
  const loop = {
    run: "a#1",
    total: 9,
    progress: { seq: [10, 20, 30], ok: [0, 1, 2], failed: [0, 0, 2], in_flight: [4, 2, 0] },
    waits: NO_WAITS,
  };
  assert.deepEqual(bandOf(loop, outline), { times: [90, 190, 290], heights: [1, 0.5, 0], failures: [290] });
  const short = { ...loop, progress: { seq: [10, 20, 30], ok: [0, 8, 9], failed: [0, 0, 0], in_flight: [0, 0, 0] } };
  assert.deepEqual(bandOf(short, outline).heights, [1, 1, 0], "short items are reported when they end");
  const two = {
    ...loop,
    progress: { seq: [10, 20, 30, 40], ok: [0, 4, 8, 8], failed: [0, 0, 0, 0], in_flight: [0, 1, 1, 2] },
  };
  assert.deepEqual(bandOf(two, outline).heights, [1, 1, 0.5, 1]);
  const long = { ...emptyOutline(), runs: null };
  long.histogram = { events_per_bin: 10, events: [10, 10], errors: [0, 0], retries: [0, 0], end_ms: [5, 9] };
  long.by_step = [{ step: "a", runs: 4, active: [2, 0], succeeded: [0, 1], failed: [0, 1] }];
  assert.deepEqual(stepBand(long, "a"), { times: [0, 5], heights: [1, 0.15], failures: [9] });
  assert.deepEqual(
    timelineRows(long, [], stepStates(long, 20), new Set(["a"]), NOTHING).map(({ kind }) => kind),
    ["step", "note"],
  );
});

test("step runs of a page have the status of the event of the view, as those of an outline", () => {
  const { step, n, loop, from_runs, waited_ms, ...columns } = outline.runs!;
  const pageRow = (row: number) =>
    ({ run: spans[row]!.run, step: step[row], ...cells(columns, row), waited_ms: {} }) as unknown as StepRunRow;
  const statuses = new Set<string>();
  for (let seq = 1; seq <= outline.seq; seq += 7)
    for (const [row, { statusAt }] of spansOf(outline, seq).entries()) {
      if (statusAt === "waiting") continue; // a page does not know when they waited
      statuses.add(statusAt);
      assert.equal(spanOf(pageRow(row), outline, seq).statusAt, statusAt);
    }
  assert.ok(statuses.has("never") && statuses.has("running") && statuses.has("succeeded"));
});

function cells(columns: Record<string, number[]>, row: number): Record<string, number> {
  return Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, values[row]!]));
}
