/** The steps and arcs of a run at any event, computed from its outline. Pure.
 *  One pass over the columns takes less than a millisecond for 5,000 step runs. */

import { type LoopOutline, type Outline, STEP_RUN_STATUSES, type StepRunColumns } from "../../api/types.gen.ts";
import { binOf } from "./time.ts";

/** Statuses by their numbers in the columns. */
export const RUN_STATUS = STEP_RUN_STATUSES;
export type RunStatus = (typeof RUN_STATUS)[number];

interface LoopState {
  total: number;
  ok: number;
  failed: number;
  in_flight: number;
}

export interface StepTokens {
  ready: number;
  delayed: number;
  join: number;
  held: number;
}

export interface StepState {
  status: RunStatus | "held" | "never";
  runs: number; // how often it was entered
  loop: LoopState | null; // of its latest loop
  tokens: StepTokens;
}

const ACTIVE: readonly RunStatus[] = ["running", "waiting", "scheduled"];

/** The status of each step after an event: that of its active runs first, else of the latest that
 *  ended. Tokens at the steps of `joins` wait for others. Steps that no token reached are not in the map. */
export function stepStates(
  outline: Outline,
  seq: number,
  joins: ReadonlySet<string> = new Set(),
): Map<string, StepState> {
  const states = new Map<string, StepState>();
  const stateOf = (step: string): StepState => {
    const state = states.get(step) ?? newStepState();
    states.set(step, state);
    return state;
  };
  if (outline.by_step) addBins(outline, seq, stateOf);
  addRuns(outline, seq, stateOf);
  addLoops(outline, seq, states);
  addTokens(outline, seq, joins, stateOf);
  return states;
}

export function newStepState(): StepState {
  return { status: "never", runs: 0, loop: null, tokens: { ready: 0, delayed: 0, join: 0, held: 0 } };
}

function addRuns({ runs, steps, ...outline }: Outline, seq: number, stateOf: (step: string) => StepState): void {
  if (!runs) return;
  const parked = parkedRuns(outline.parked, seq);
  const lastEnded = new Map<StepState, number>();
  for (let row = 0; row < runs.step.length; row += 1) {
    if (runs.scheduled_seq[row]! > seq) continue;
    const state = stateOf(steps[runs.step[row]!]!);
    state.runs += 1;
    const ended = runs.ended_seq[row]!;
    const status = runStatusAt(runs, row, seq, outline.seq, parked);
    if (!ended || ended > seq) {
      if (rank(status) < rank(state.status)) state.status = status;
    } else if (rank(state.status) === ACTIVE.length && ended >= (lastEnded.get(state) ?? 0)) {
      lastEnded.set(state, ended);
      state.status = status;
    }
  }
}

/** Of several loops of a step, the last one that has begun counts: loops are in the order of their scheduling. */
function addLoops({ loops }: Outline, seq: number, states: Map<string, StepState>): void {
  for (const loop of loops) {
    const state = states.get(loop.run.slice(0, loop.run.lastIndexOf("#")));
    const hasBegun = (loop.progress.seq[0] ?? 0) <= seq;
    if (state?.runs && (hasBegun || !state.loop)) state.loop = loopAt(loop, seq);
  }
}

const rank = (status: StepState["status"]): number => {
  const place = ACTIVE.indexOf(status as RunStatus);
  return place < 0 ? ACTIVE.length : place;
};

/** The status of one step run after an event. */
export function runStatusAt(
  runs: StepRunColumns,
  row: number,
  seq: number,
  latest: number,
  parked: ReadonlySet<number>,
): RunStatus {
  return statusAt(runs.started_seq[row]!, runs.ended_seq[row]!, runs.status[row]!, seq, latest, parked.has(row));
}

/** The same for a run with these events and this latest status. */
export function statusAt(
  started: number,
  ended: number,
  status: number,
  seq: number,
  latest: number,
  isParked = false,
): RunStatus {
  if ((ended && ended <= seq) || (!ended && seq >= latest)) return RUN_STATUS[status] ?? "scheduled";
  if (isParked) return "waiting";
  return started && started <= seq ? "running" : "scheduled";
}

const NO_STEPS = { steps: [], runs: null };

/** The event that scheduled a step run such as `fetch#1`; 0 if the outline does not have it. */
export function scheduledSeq(outline: Pick<Outline, "steps" | "runs"> | null | undefined, run: string): number {
  const { steps, runs } = outline ?? NO_STEPS;
  const mark = run.lastIndexOf("#");
  const [step, n] = [steps.indexOf(run.slice(0, mark)), Number(run.slice(mark + 1))];
  const place = runs?.step.findIndex((number, at) => number === step && runs.n[at] === n) ?? -1;
  return runs?.scheduled_seq[place] ?? 0;
}

/** The rows of step runs without a loop that wait after an event. */
export function parkedRuns(parked: Outline["parked"], seq: number): Set<number> {
  const waiting = new Set<number>();
  for (const [place, run] of (parked?.run ?? []).entries()) {
    const [from, to] = [parked!.from_seq[place]!, parked!.to_seq[place]!];
    if (from <= seq && (!to || to > seq)) waiting.add(run);
  }
  return waiting;
}

/** The progress of a loop after an event, from the last point that is not later. */
function loopAt({ total, progress }: LoopOutline, seq: number): LoopState {
  let [low, high] = [0, progress.seq.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (progress.seq[middle]! <= seq) low = middle + 1;
    else high = middle;
  }
  const at = low - 1;
  const [ok, failed, in_flight] = [progress.ok[at] ?? 0, progress.failed[at] ?? 0, progress.in_flight[at] ?? 0];
  return { total, ok, failed, in_flight };
}

function addTokens(
  { tokens, steps }: Outline,
  seq: number,
  joins: ReadonlySet<string>,
  stateOf: (step: string) => StepState,
): void {
  for (let row = 0; row < (tokens?.step.length ?? 0); row += 1) {
    const consumed = tokens!.consumed_seq[row]!;
    if (tokens!.enqueued_seq[row]! > seq || (consumed && consumed <= seq)) continue;
    const step = steps[tokens!.step[row]!]!;
    const held = tokens!.held_seq[row]!;
    const state = stateOf(step);
    if (held && held <= seq) {
      state.tokens.held += 1;
      if (rank(state.status) === ACTIVE.length) state.status = "held";
    } else state.tokens[joins.has(step) ? "join" : "ready"] += 1;
  }
}

/** Above 5,000 step runs an outline has counts for each bin of the histogram in place of step runs. */
function addBins(outline: Outline, seq: number, stateOf: (step: string) => StepState): void {
  const bin = binOf(outline.histogram, seq);
  for (const { step, runs, active, succeeded, failed } of outline.by_step ?? []) {
    const at = Math.min(bin, active.length - 1); // bins that frames have added are not counted yet
    const [now, ok, bad] = [active[at] ?? 0, succeeded[at] ?? 0, failed[at] ?? 0];
    if (!(now + ok + bad)) continue;
    const state = stateOf(step);
    state.runs = seq >= outline.seq ? runs : now + ok + bad;
    state.status = now ? "running" : lastEndFailed(succeeded, failed, at) ? "failed" : "succeeded";
  }
}

/** Whether step runs failed in the last bin, up to one, in which any ended. */
function lastEndFailed(succeeded: number[], failed: number[], bin: number): boolean {
  let at = bin;
  while (at > 0 && succeeded[at] === succeeded[at - 1] && failed[at] === failed[at - 1]) at -= 1;
  return failed[at]! > (failed[at - 1] ?? 0);
}

/** How often each arc has fired after an event, by `STEP/next/0`. In the past, the tokens say it; where they cannot
 *  tell two arcs to one step apart, the arcs that ever fired share them. */
export function firedArcs(
  outline: Outline,
  seq: number,
  arcs: readonly { step: string; arc: number; target: string }[],
): Map<string, number> {
  const total = new Map(outline.arcs.map((arc) => [`${arc.step}/next/${arc.arc}`, arc]));
  const sent = tokensSent(outline, seq);
  const fired = new Map<string, number>();
  for (const { step, arc, target } of arcs) {
    const key = `${step}/next/${arc}`;
    const known = total.get(key);
    if (!known) continue;
    const count =
      known.last_seq <= seq ? known.fired : sent ? Math.min(known.fired, sent.get(`${step}>${target}`) ?? 0) : 0;
    if (count) fired.set(key, count);
  }
  return fired;
}

function tokensSent({ tokens, runs, steps }: Outline, seq: number): Map<string, number> | null {
  if (!tokens || !runs) return null;
  const sent = new Map<string, number>();
  for (const [row, from] of tokens.from_run.entries()) {
    if (from < 0 || tokens.enqueued_seq[row]! > seq) continue;
    const key = `${steps[runs.step[from]!]}>${steps[tokens.step[row]!]}`;
    sent.set(key, (sent.get(key) ?? 0) + 1);
  }
  return sent;
}
