/** Replays a playbook against the log of a run, slice by slice, up to the first difference. */

import { signal } from "@preact/signals";
import { Problem, post } from "../api/client.ts";
import type { Replay } from "../api/types.gen.ts";

export class ReplayRun {
  readonly running = signal(false);
  /** The last answer; `equal` is null while there is more to compare. */
  readonly result = signal<Replay | null>(null);
  readonly problem = signal<Problem | null>(null);
  /** The text that was replayed: a result about another text is out of date. */
  readonly text = signal("");
  readonly #path: string;
  #abort: AbortController | undefined;

  constructor(executionId: string) {
    this.#path = `/executions/${encodeURIComponent(executionId)}/replay`;
  }

  async start(playbook: string): Promise<void> {
    this.stop();
    const abort = new AbortController();
    this.#abort = abort;
    this.running.value = true;
    this.result.value = null;
    this.problem.value = null;
    this.text.value = playbook;
    try {
      let after = 0;
      for (;;) {
        const answer = await post<Replay>(this.#path, { playbook, after }, { signal: abort.signal });
        if (abort.signal.aborted) return;
        this.result.value = answer;
        if (answer.equal !== null) break;
        after = answer.scanned_to;
      }
    } catch (error) {
      if (!abort.signal.aborted) this.problem.value = Problem.of(error);
    } finally {
      if (this.#abort === abort) this.running.value = false;
    }
  }

  stop(): void {
    this.#abort?.abort();
    this.running.value = false;
  }
}
