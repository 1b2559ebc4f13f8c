/** Outlines for tests: a random log, the outline that the server makes of it, and the fold of its events. */

import type { Outline } from "../../api/types.gen.ts";

export function emptyOutline(): Outline {
  return {
    execution_id: "x",
    seq: 0,
    status: "running",
    started: "2026-11-17T12:00:00Z",
    ended: null,
    digests: [],
    steps: [],
    runs: {
      step: [],
      n: [],
      scheduled_seq: [],
      started_seq: [],
      ended_seq: [],
      scheduled_ms: [],
      started_ms: [],
      ended_ms: [],
      status: [],
      retries: [],
      loop: [],
      from_runs: [],
      waited_ms: { worker: [], retry: [], external: [] },
    },
    parked: { run: [], from_seq: [], to_seq: [] },
    tokens: { step: [], from_run: [], enqueued_seq: [], consumed_seq: [], held_seq: [] },
    loops: [],
    arcs: [],
    markers: [],
    critical_path: [],
    histogram: { events_per_bin: 1, events: [], errors: [], retries: [], end_ms: [] },
    by_step: null,
  };
}

/** Numbers below a limit, the same ones for the same seed. */
export function random(seed: number): (limit: number) => number {
  let state = seed * 2_654_435_761 + 1;
  return (limit) => {
    state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 374_761_393) >>> 0;
    return ((state ^ (state >>> 13)) >>> 0) % limit;
  };
}

export interface LogEntry {
  kind: "token" | "held" | "scheduled" | "started" | "parked" | "resumed" | "ended";
  step: number;
  token: number;
  run: number; // place among the step runs
  status: number;
}

/** A log of tokens and step runs in which every event may follow the one before it. */
export function randomLog(seed: number, events: number, steps: number): LogEntry[] {
  const next = random(seed);
  const log: LogEntry[] = [];
  const waiting: { token: number; step: number; held: boolean }[] = [];
  const open: { run: number; step: number; state: "scheduled" | "started" | "parked" }[] = [];
  let [tokens, runs] = [0, 0];
  const add = (entry: Partial<LogEntry>) =>
    log.push({ kind: "token", step: -1, token: -1, run: -1, status: 0, ...entry });
  while (log.length < events) {
    const choice = next(5);
    if (choice === 0 || (!waiting.length && !open.length)) {
      waiting.push({ token: tokens, step: next(steps), held: false });
      add({ kind: "token", token: tokens, step: waiting.at(-1)!.step, run: runs ? next(runs) : -1 });
      tokens += 1;
    } else if (choice < 3 && waiting.length) {
      const at = next(waiting.length);
      const token = waiting[at]!;
      if (!token.held && next(4) === 0) {
        token.held = true;
        add({ kind: "held", token: token.token, step: token.step });
      } else {
        waiting.splice(at, 1);
        open.push({ run: runs, step: token.step, state: "scheduled" });
        add({ kind: "scheduled", token: token.token, step: token.step, run: runs });
        runs += 1;
      }
    } else if (open.length) {
      const at = next(open.length);
      const { run, step, state } = open[at]!;
      if (state === "scheduled") add({ kind: "started", run, step });
      else if (state === "parked") add({ kind: "resumed", run, step });
      else if (next(2)) add({ kind: "parked", run, step });
      else {
        add({ kind: "ended", run, step, status: 3 + next(4) });
        open.splice(at, 1);
        continue;
      }
      open[at]!.state = state === "started" ? "parked" : "started";
    }
  }
  return log;
}

/** The outline of a log, as the columns of the server have it. One event takes 10 ms. */
export function outlineOf(log: readonly LogEntry[], steps: number): Outline {
  const outline = emptyOutline();
  const { runs, parked, tokens, histogram } = outline;
  outline.steps = Array.from({ length: steps }, (_, step) => `step${step}`);
  outline.seq = log.length;
  const counts = new Array<number>(steps).fill(0);
  for (const [place, { kind, step, token, run, status }] of log.entries()) {
    const [seq, ms] = [place + 1, place * 10];
    histogram.events.push(1);
    histogram.errors.push(status === 4 ? 1 : 0);
    histogram.retries.push(0);
    histogram.end_ms.push(ms);
    if (kind === "token") {
      tokens!.step.push(step);
      tokens!.from_run.push(run);
      tokens!.enqueued_seq.push(seq);
      tokens!.consumed_seq.push(0);
      tokens!.held_seq.push(0);
    } else if (kind === "held") tokens!.held_seq[token] = seq;
    else if (kind === "scheduled") {
      tokens!.consumed_seq[token] = seq;
      counts[step]! += 1;
      runs!.step.push(step);
      runs!.n.push(counts[step]!);
      runs!.scheduled_seq.push(seq);
      runs!.scheduled_ms.push(ms);
      for (const column of [runs!.started_seq, runs!.ended_seq, runs!.retries, runs!.status]) column.push(0);
      for (const column of [runs!.started_ms, runs!.ended_ms, runs!.loop]) column.push(-1);
      for (const column of Object.values(runs!.waited_ms)) column.push(0);
      runs!.from_runs.push([]);
    } else if (kind === "started") {
      runs!.status[run] = 1;
      runs!.started_seq[run] = seq;
      runs!.started_ms[run] = ms;
    } else if (kind === "parked") {
      runs!.status[run] = 2;
      parked!.run.push(run);
      parked!.from_seq.push(seq);
      parked!.to_seq.push(0);
    } else if (kind === "resumed") {
      runs!.status[run] = 1;
      parked!.to_seq[parked!.run.lastIndexOf(run)] = seq;
    } else {
      runs!.status[run] = status;
      runs!.ended_seq[run] = seq;
      runs!.ended_ms[run] = ms;
    }
  }
  return outline;
}
