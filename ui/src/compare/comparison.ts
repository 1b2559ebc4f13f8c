/** The comparison of two runs, loaded slice by slice until the first difference is known. */

import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { get, Problem } from "../api/client.ts";
import type { ExecutionDiff } from "../api/types.gen.ts";

export class Comparison {
  readonly data = signal<ExecutionDiff | undefined>(undefined); // `equal` is null while there is more to compare
  readonly problem = signal<Problem | undefined>(undefined);
  readonly loading = signal(false);
  readonly #path: string;
  readonly #other: string;
  #abort = new AbortController();

  constructor(a: string, b: string) {
    this.#path = `/executions/${encodeURIComponent(a)}/diff`;
    this.#other = b;
  }

  load = async (): Promise<void> => {
    this.stop();
    const abort = new AbortController();
    this.#abort = abort;
    this.loading.value = true;
    this.problem.value = undefined;
    try {
      const query = { with: this.#other, after: 0, b_after: 0 };
      for (;;) {
        const diff = await get<ExecutionDiff>(this.#path, { query, signal: abort.signal });
        this.data.value = diff;
        if (diff.equal !== null || abort.signal.aborted) break;
        query.after = diff.scanned_to;
        query.b_after = diff.b_scanned_to;
      }
    } catch (error) {
      if (!abort.signal.aborted) this.problem.value = Problem.of(error);
    } finally {
      if (this.#abort === abort) this.loading.value = false;
    }
  };

  stop = (): void => this.#abort.abort();
}

export function useComparison(a: string, b: string): Comparison {
  const comparison = useMemo(() => new Comparison(a, b), [a, b]);
  useEffect(() => {
    void comparison.load();
    return comparison.stop;
  }, [comparison]);
  return comparison;
}
