/** What is selected in a run: all of it is in the URL. */

import { computed } from "@preact/signals";
import { parameter, setQuery } from "../location.ts";

export interface Selection {
  step: string; // "" for none
  run: string; // a step run, such as fetch#1
  item: number | null;
  task: string;
  arc: string; // STEP/next/0
  event: number | null;
}

const NOTHING: Selection = { step: "", run: "", item: null, task: "", arc: "", event: null };

export const selection = computed<Selection>(() => ({
  step: parameter("step") || stepOf(parameter("run")),
  run: parameter("run"),
  item: whole(parameter("item")),
  task: parameter("task"),
  arc: parameter("arc"),
  event: whole(parameter("event")),
}));

export const hasSelection = computed(() => JSON.stringify(selection.value) !== JSON.stringify(NOTHING));

/** Selects something; what is not named is no longer selected. */
export function select(part: Partial<Selection>, options: { replace?: boolean } = {}): void {
  setQuery({ ...NOTHING, ...part }, options);
}

/** The step of a step run: `fetch` of `fetch#1`. */
export function stepOf(run: string): string {
  const end = run.lastIndexOf("#");
  return end < 0 ? "" : run.slice(0, end);
}

/** A whole number of the URL; null for any other text, and for numbers that nothing is counted with. */
export function whole(text: string): number | null {
  const number = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(number) ? number : null;
}
