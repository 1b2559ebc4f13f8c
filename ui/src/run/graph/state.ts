/** The graph of a run at one event: the state of each box and arc, exact where the state is loaded. */

import type { Graph, Outline, State, Wait } from "../../api/types.gen.ts";
import { count, counted } from "../../text/number.ts";
import { duration } from "../../text/time.ts";
import type { RunModel } from "../model.ts";
import { firedArcs, newStepState, type RunStatus, type StepState, stepStates } from "../outline/outline.ts";
import { stepOf } from "../selection.ts";

export interface GraphState {
  boxes: Map<string, BoxState>;
  fired: Map<string, number>; // by STEP/next/0
}

export interface BoxState extends StepState {
  wait: Wait | null;
  durationMs: number | null; // of its latest run, if that has ended
  isEstimate: boolean; // from the outline, between two of its points
}

export function graphState(model: RunModel, graph: Graph): GraphState {
  const [outline, at, state] = [model.outline.value, model.at.value, model.state.value];
  if (!outline) return { boxes: new Map(), fired: new Map() };
  const joins = new Set(graph.nodes.filter(isJoin).map(({ name }) => name));
  const exact = state?.seq === at ? state : undefined;
  const steps = exact ? exactStates(exact) : stepStates(outline, at, joins);
  const waits = waitsAt(model);
  const durations = lastDurations(outline, at);
  const boxes = new Map<string, BoxState>();
  for (const [step, stepState] of steps) {
    const wait = waits.find(({ run }) => (stepOf(run) || run) === step) ?? null;
    boxes.set(step, {
      ...stepState,
      wait,
      durationMs: durations.get(step) ?? null,
      isEstimate: !exact && model.isPast.value,
    });
  }
  return { boxes, fired: firedArcs(outline, at, arcsOf(graph)) };
}

/** How long the latest run of each step took, if it has ended. */
function lastDurations({ runs, steps }: Outline, at: number): Map<string, number> {
  const durations = new Map<string, number>();
  for (let row = 0; row < (runs?.step.length ?? 0); row += 1) {
    const step = steps[runs!.step[row]!]!;
    const [scheduled, ended] = [runs!.scheduled_seq[row]!, runs!.ended_seq[row]!];
    if (scheduled > at) continue;
    if (ended && ended <= at) durations.set(step, runs!.ended_ms[row]! - runs!.started_ms[row]!);
    else durations.delete(step);
  }
  return durations;
}

/** The waits at the event of the view; of the past only a loaded state knows them, and only now has waits for workers. */
export function waitsAt(model: RunModel): Wait[] {
  if (!model.isPast.value) return latestWaits(model);
  const state = model.state.value;
  return state?.seq === model.at.value ? (state.runs ?? []).flatMap(({ waits }) => waits) : [];
}

export function latestWaits(model: RunModel): Wait[] {
  return model.doing.value?.waits ?? [];
}

function isJoin(node: Graph["nodes"][number]): boolean {
  return node.badges.some(({ kind }) => kind === "join");
}

function arcsOf(graph: Graph): { step: string; arc: number; target: string }[] {
  return graph.edges.flatMap(({ source, target, arc }) => {
    const [from, to] = [graph.nodes[source], graph.nodes[target]];
    return from && to ? [{ step: from.name, arc, target: to.name }] : [];
  });
}

const ACTIVE = ["running", "waiting", "scheduled"];
const TOKEN_PLACE = { ready: "ready", delayed: "delayed", held: "held", waiting: "join" } as const;

/** The same as `stepStates`, from the state itself. */
export function exactStates(state: State): Map<string, StepState> {
  const states = new Map<string, StepState>();
  const stateOf = (step: string): StepState => {
    const box = states.get(step) ?? newStepState();
    states.set(step, box);
    return box;
  };
  for (const [step, { status, runs, items }] of Object.entries(state.steps ?? {})) {
    const loop = items && { total: items.total, ok: items.ok, failed: items.failed, in_flight: items.running };
    states.set(step, { ...newStepState(), status: status as RunStatus, runs, loop });
  }
  for (const status of ACTIVE.toReversed())
    for (const run of state.runs ?? []) if (run.status === status) stateOf(run.step).status = run.status;
  for (const token of state.tokens ?? []) {
    const box = stateOf(token.step);
    box.tokens[TOKEN_PLACE[token.status]] += 1;
    if (token.status === "held" && !ACTIVE.includes(box.status)) box.status = "held";
  }
  return states;
}

const WAIT_WORDS: Record<Wait["for"], (name: string) => string> = {
  signal: (name) => `signal ${name}`,
  child: () => "child run",
  retry: () => "retry",
  event: (name) => `event ${name}`,
  worker: (name) => `worker in pool ${name}`,
  join: () => "other tokens",
  admission: () => "admission",
  timer: (name) => (name ? `timer ${name}` : "timer"),
  resume: () => "resume",
};

/** The reason of a wait, in two or three words. */
export function waitWords(wait: Wait): string {
  return WAIT_WORDS[wait.for]?.(wait.name) ?? wait.message;
}

/** The row of a box that a run adds: loop progress, else the wait, else the number of runs and the latest duration. */
export function runRow(box: BoxState | undefined): string {
  if (!box) return "";
  if (box.loop) {
    const done = box.loop.ok + box.loop.failed;
    return `${box.isEstimate ? "~" : ""}${count(done)} of ${count(box.loop.total)}`;
  }
  if (box.wait) return waitWords(box.wait);
  const parts = [
    box.runs > 1 ? counted(box.runs, "step run") : "",
    box.durationMs === null ? "" : duration(box.durationMs),
  ];
  return parts.filter(Boolean).join(", ");
}
