/** The state of a run as entries of a tree. Pure. */

import type { Outline, State } from "../../api/types.gen.ts";
import type { Entry } from "../../parts/json-value.ts";
import { isMap } from "../../text/json.ts";

/** What templates can name; results of the run, signals and timers are only shown. */
const TEMPLATE_NAMES = /^(workload|ctx|vars|args|steps)\b/;

export function isExpression(id: string): boolean {
  return TEMPLATE_NAMES.test(id);
}

/** Empty parts are left out, except the two that a reader looks for first. */
export function dataRoots(state: State, args: unknown): Entry[] {
  const vars = isMap(state.ctx) ? state.ctx.vars : undefined;
  const roots: Entry[] = [
    ["workload", state.workload ?? {}],
    ["ctx", state.ctx ?? {}],
    ["vars", vars],
    ["args", args],
    ["steps", state.steps],
    ["result", state.result],
    ["signals", state.signals],
    ["timers", timersOf(state)],
  ];
  return roots.filter(([name, value]) => name === "workload" || name === "ctx" || !isEmpty(value));
}

function timersOf(state: State): Record<string, string> {
  return Object.fromEntries((state.timers ?? []).map(({ name, due }) => [name, due]));
}

function isEmpty(value: unknown): boolean {
  return value == null || (typeof value === "object" && Object.keys(value).length === 0);
}

/** The expressions of everything above one: `ctx`, `ctx.rows` of `ctx.rows[0]`. */
export function above(id: string): string[] {
  const ids: string[] = [];
  let [isQuoted, isEscaped] = [false, false];
  for (let place = 1; place < id.length; place += 1) {
    const character = id[place];
    if (!isQuoted && (character === "." || character === "[")) ids.push(id.slice(0, place));
    if (character === '"' && !isEscaped) isQuoted = !isQuoted;
    isEscaped = character === "\\" && !isEscaped;
  }
  return ids;
}

export type Comparison = { name: string; label: string; at: number };

/** The events that ctx can be compared with. */
export function comparisons(at: number, run: string, runStarted: number, chosen: string): Comparison[] {
  const known: Comparison[] = [];
  if (at > 1) known.push({ name: "previous", label: "the previous event", at: at - 1 });
  if (at > 1) known.push({ name: "start", label: "the start", at: 1 });
  if (run && runStarted && runStarted < at) known.push({ name: "run", label: `the start of ${run}`, at: runStarted });
  if (/^\d+$/.test(chosen)) known.push({ name: chosen, label: `event ${chosen}`, at: Number(chosen) });
  return known;
}

/** The event that scheduled a step run, such as `fetch#1`; 0 if the outline does not have it. */
export function startOfRun({ steps, runs }: Pick<Outline, "steps" | "runs">, run: string): number {
  if (!runs) return 0;
  const place = runs.n.findIndex((n, row) => `${steps[runs.step[row] ?? -1]}#${n}` === run);
  return runs.scheduled_seq[place] ?? 0;
}
