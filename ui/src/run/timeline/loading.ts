/** Loads the data of an expanded row: details of a step run, or step runs of a step. */

import { signal } from "@preact/signals";
import { get } from "../../api/client.ts";
import type { StepRun, StepRunPage, StepRunRow } from "../../api/types.gen.ts";
import { toastProblem } from "../../parts/toast.tsx";
import type { RunModel } from "../model.ts";
import type { Loaded, LoadedRuns } from "./rows.ts";
import { spanOf } from "./spans.ts";

const PAGE = 100;

interface LoadedRows {
  rows: StepRunRow[];
  next: number | null;
}

export class TimelineLoader implements Loaded {
  readonly #model: RunModel;
  readonly #details = signal<ReadonlyMap<string, StepRun>>(new Map());
  readonly #runs = signal<ReadonlyMap<string, LoadedRows>>(new Map());
  readonly #loading = new Set<string>();

  constructor(model: RunModel) {
    this.#model = model;
  }

  details = (run: string): StepRun | undefined => this.#details.value.get(run);
  runs = (step: string): LoadedRuns | undefined => {
    const [loaded, outline, seq] = [this.#runs.value.get(step), this.#model.outline.value, this.#model.at.value];
    return loaded && outline
      ? { spans: loaded.rows.map((row) => spanOf(row, outline, seq)), hasMore: loaded.next !== null }
      : undefined;
  };

  /** Loads the tasks of a step run, again if it goes on. */
  loadDetails(run: string): void {
    const known = this.#details.peek().get(run);
    if (known?.ended) return;
    void this.#once(`run ${run}`, "The tasks were not loaded", async () => {
      const details = await get<StepRun>(this.#model.path("step-run"), { query: { run } });
      this.#details.value = new Map(this.#details.peek()).set(run, details);
    });
  }

  /** Loads the first, or the next, step runs of a step. */
  loadRuns(step: string): void {
    const known = this.#runs.peek().get(step);
    if (known && known.next === null) return;
    void this.#once(`step ${step}`, "The step runs were not loaded", async () => {
      const query = { step, limit: PAGE, ...(known?.next == null ? {} : { after: known.next }) };
      const page = await get<StepRunPage>(this.#model.path("step-runs"), { query });
      const loaded = { rows: [...(known?.rows ?? []), ...page.items], next: page.next };
      this.#runs.value = new Map(this.#runs.peek()).set(step, loaded);
    });
  }

  async #once(key: string, action: string, load: () => Promise<void>): Promise<void> {
    if (this.#loading.has(key)) return;
    this.#loading.add(key);
    try {
      await load();
    } catch (error) {
      toastProblem(action, error);
    } finally {
      this.#loading.delete(key);
    }
  }
}
