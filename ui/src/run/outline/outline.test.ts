import assert from "node:assert/strict";
import { test } from "node:test";
import type { Outline } from "../../api/types.gen.ts";
import { firedArcs, RUN_STATUS, type StepState, stepStates } from "./outline.ts";
import { type LogEntry, outlineOf, randomLog } from "./samples.ts";

const WAITED = { worker: [0, 0, 0, 0], retry: [0, 0, 0, 0], external: [0, 0, 0, 0] };

/** start#1 ends at 4 and leads to fetch (a loop) and ask (which waits from 9 to 12); fetch leads to report, a join. */
const OUTLINE: Outline = {
  execution_id: "1",
  seq: 30,
  status: "running",
  started: "",
  ended: null,
  digests: [[1, "d"]],
  steps: ["start", "fetch", "ask", "report"],
  runs: {
    step: [0, 1, 2, 2],
    n: [1, 1, 1, 2],
    scheduled_seq: [2, 6, 7, 25],
    started_seq: [3, 8, 8, 0],
    ended_seq: [4, 20, 14, 0],
    scheduled_ms: [0, 0, 0, 0],
    started_ms: [0, 0, 0, 0],
    ended_ms: [0, 0, 0, -1],
    status: [3, 4, 3, 2],
    retries: [0, 0, 0, 0],
    loop: [-1, 0, -1, -1],
    from_runs: [[], [0], [0], [1]],
    waited_ms: WAITED,
  },
  parked: { run: [2], from_seq: [9], to_seq: [12] },
  tokens: {
    step: [0, 1, 2, 3, 1],
    from_run: [-1, 0, 0, 1, 2],
    enqueued_seq: [1, 5, 5, 21, 15],
    consumed_seq: [2, 6, 7, 0, 0],
    held_seq: [0, 0, 0, 0, 16],
  },
  loops: [
    {
      run: "fetch#1",
      total: 8,
      progress: { seq: [10, 14, 20], ok: [1, 4, 6], failed: [0, 1, 2], in_flight: [2, 1, 0] },
      waits: { kind: [], from_ms: [], to_ms: [] },
    },
  ],
  arcs: [
    { step: "start", arc: 0, fired: 1, last_seq: 5 },
    { step: "fetch", arc: 0, fired: 2, last_seq: 28 },
  ],
  markers: [],
  critical_path: [],
  histogram: { events_per_bin: 10, events: [10, 10, 10], errors: [], retries: [], end_ms: [] },
  by_step: null,
};

test("a step that no token reached is not in the map", () => {
  assert.deepEqual([...stepStates(OUTLINE, 3).keys()], ["start"]);
});

test("the status of a step is that of its run at the event", () => {
  const statuses = [2, 3, 4, 8, 10, 13, 14].map((seq) => {
    const states = stepStates(OUTLINE, seq);
    return `${states.get("start")?.status} ${states.get("ask")?.status ?? "-"}`;
  });
  assert.deepEqual(statuses, [
    "scheduled -",
    "running -",
    "succeeded -",
    "succeeded running",
    "succeeded waiting",
    "succeeded running",
    "succeeded succeeded",
  ]);
});

test("an active run comes before one that ended", () => {
  assert.deepEqual(
    [stepStates(OUTLINE, 25).get("ask")?.status, stepStates(OUTLINE, 25).get("ask")?.runs],
    ["scheduled", 2],
  );
  assert.equal(stepStates(OUTLINE, 30).get("ask")?.status, "waiting");
});

test("a loop shows the last point that is not later", () => {
  assert.deepEqual(stepStates(OUTLINE, 9).get("fetch")?.loop, { total: 8, ok: 0, failed: 0, in_flight: 0 });
  assert.deepEqual(stepStates(OUTLINE, 17).get("fetch")?.loop, { total: 8, ok: 4, failed: 1, in_flight: 1 });
});

test("tokens are ready, at a join, or held", () => {
  const joins = new Set(["report"]);
  assert.equal(stepStates(OUTLINE, 5, joins).get("fetch")?.tokens.ready, 1);
  assert.equal(stepStates(OUTLINE, 21, joins).get("report")?.tokens.join, 1);
  assert.equal(stepStates(OUTLINE, 21, joins).get("fetch")?.tokens.held, 1);
  assert.equal(stepStates(OUTLINE, 21, joins).get("fetch")?.status, "held");
});

test("counts for each bin take the place of step runs", () => {
  const by_step = [{ step: "start", runs: 9, active: [2, 0, 0], succeeded: [1, 6, 6], failed: [0, 0, 3] }];
  const outline = { ...OUTLINE, runs: null, tokens: null, parked: null, by_step };
  const states = [5, 20, 30].map((seq) => stepStates(outline, seq).get("start"));
  assert.deepEqual(
    states.map((state) => [state?.status, state?.runs]),
    [
      ["running", 3],
      ["succeeded", 6],
      ["failed", 9],
    ],
  );
});

test("the arcs that have fired are those that sent a token", () => {
  const arcs = [
    { step: "start", arc: 0, target: "fetch" },
    { step: "fetch", arc: 0, target: "report" },
  ];
  assert.deepEqual([...firedArcs(OUTLINE, 4, arcs)], []);
  assert.deepEqual(
    [...firedArcs(OUTLINE, 22, arcs)],
    [
      ["start/next/0", 1],
      ["fetch/next/0", 1],
    ],
  );
  assert.equal(firedArcs(OUTLINE, 30, arcs).get("fetch/next/0"), 2);
});

/** The states of the steps after some events, one event after the other. */
function folded(log: readonly LogEntry[], steps: number): Map<string, StepState> {
  const runs = new Map<number, { step: number; status: number; ended: number }>();
  const tokens = new Map<number, { step: number; held: boolean }>();
  for (const [place, { kind, step, token, run, status }] of log.entries()) {
    if (kind === "token") tokens.set(token, { step, held: false });
    if (kind === "held") tokens.get(token)!.held = true;
    if (kind === "scheduled") tokens.delete(token);
    const now = { scheduled: 0, started: 1, resumed: 1, parked: 2, ended: status, token: -1, held: -1 }[kind];
    if (now >= 0) runs.set(run, { step, status: now, ended: kind === "ended" ? place : -1 });
  }
  const states = new Map<string, StepState>();
  for (let step = 0; step < steps; step += 1) {
    const own = [...runs.values()].filter((run) => run.step === step);
    const waiting = [...tokens.values()].filter((token) => token.step === step);
    const held = waiting.filter((token) => token.held).length;
    const active = [1, 2, 0].find((status) => own.some((run) => run.status === status));
    const last = own.toSorted((one, other) => other.ended - one.ended)[0];
    const ended = last ? RUN_STATUS[last.status]! : "never";
    if (own.length || waiting.length)
      states.set(`step${step}`, {
        status: active !== undefined ? RUN_STATUS[active]! : held ? "held" : ended,
        runs: own.length,
        loop: null,
        tokens: { ready: waiting.length - held, delayed: 0, join: 0, held },
      });
  }
  return states;
}

test("the states of a random run at every event are those of a fold of its events", () => {
  for (let seed = 1; seed <= 30; seed += 1) {
    const log = randomLog(seed, 150, 4);
    const outline = outlineOf(log, 4);
    for (let seq = 1; seq <= log.length; seq += 1)
      assert.deepEqual(stepStates(outline, seq), folded(log.slice(0, seq), 4), `seed ${seed}, event ${seq}`);
  }
});
