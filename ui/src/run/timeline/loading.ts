/** What the timeline loads when a row is expanded: details of a step run, or step runs of a step. */

import { signal } from "@preact/signals";
import { get } from "../../api/client.ts";
import type { StepRun, StepRunPage } from "../../api/types.gen.ts";
import { toastProblem } from "../../parts/toast.tsx";
import type { RunModel } from "../model.ts";
import type { Loaded } from "./rows.ts";
import { type Span, spanOf } from "./spans.ts";

const PAGE = 100;

interface LoadedRuns {
  spans: Span[];
  hasMore: boolean;
  next: number | null;
}

export class TimelineLoader implements Loaded {
  readonly #model: RunModel;
  readonly #details = signal<ReadonlyMap<string, StepRun>>(new Map());
  readonly #runs = signal<ReadonlyMap<string, LoadedRuns>>(new Map());
  readonly #loading = new Set<string>();

  constructor(model: RunModel) {
    this.#model = model;
  }

  details = (run: string): StepRun | undefined => this.#details.value.get(run);
  runs = (step: string): LoadedRuns | undefined => this.#runs.value.get(step);

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
    const outline = this.#model.outline.peek();
    const known = this.#runs.peek().get(step);
    if (!outline || (known && known.next === null)) return;
    void this.#once(`step ${step}`, "The step runs were not loaded", async () => {
      const query = { step, limit: PAGE, ...(known?.next == null ? {} : { after: known.next }) };
      const page = await get<StepRunPage>(this.#model.path("step-runs"), { query });
      const spans = [...(known?.spans ?? []), ...page.items.map((row) => spanOf(row, outline))];
      const loaded = { spans, next: page.next, hasMore: page.next !== null };
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
