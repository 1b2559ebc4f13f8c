/** Dry runs of a fork, 150 ms after the last change; older responses are discarded. */

import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Problem, post } from "../api/client.ts";
import type { ForkPreview, ForkRequest, RetryRequest } from "../api/types.gen.ts";
import { counted } from "../text/number.ts";

const PAUSE_MS = 150;

export interface ForkCall {
  path: string; // of the API: fork or retry
  body: ForkRequest | RetryRequest;
}

export interface Preview {
  data: Signal<ForkPreview | null>; // the last answer stays while the next is on its way
  problem: Signal<Problem | null>;
}

/** Sends no request for null: a change is not complete. */
export function usePreview(call: ForkCall | null): Preview {
  const data = useSignal<ForkPreview | null>(null);
  const problem = useSignal<Problem | null>(null);
  const text = call && JSON.stringify(call);
  useEffect(() => {
    if (!call) return;
    const running = new AbortController();
    const ask = async () => {
      const options = { query: { dry_run: true }, signal: running.signal };
      try {
        data.value = await post<ForkPreview>(call.path, call.body, options);
        problem.value = null;
      } catch (error) {
        if (!running.signal.aborted) problem.value = Problem.of(error);
      }
    };
    const timer = window.setTimeout(ask, data.peek() ? PAUSE_MS : 0);
    return () => {
      window.clearTimeout(timer);
      running.abort();
    };
  }, [text]);
  return { data, problem };
}

/** "Kept: start. Runs again: fetch#1 (4,588 items left)." */
export function previewWords({ done, again }: ForkPreview): { kept: string; repeated: string } {
  const repeated = again.map(({ run, task, items }) => {
    if (items !== null) return `${run} (${counted(items, "item")} left)`;
    return task ? `${run} (from task ${task})` : run;
  });
  return { kept: done.join(", ") || "nothing", repeated: repeated.join(", ") || "nothing" };
}

/** The role of each step in a fork: kept, runs again, or next if it has a token. */
export function planOf(preview: ForkPreview | null, next: string[]): ReadonlyMap<string, string> {
  const words = (steps: string[], word: string) => steps.map((step): [string, string] => [step, word]);
  const { done = [], again = [] } = preview ?? {};
  const repeated = again.map(({ step }) => step);
  return new Map([...words(done, "kept"), ...words(next, "next"), ...words(repeated, "again")]);
}
