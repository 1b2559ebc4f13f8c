/** Validates a text 200 ms after the last keystroke; answers about older texts are discarded. */

import { signal } from "@preact/signals";
import { Problem, request } from "../api/client.ts";
import type { Graph, Validity } from "../api/types.gen.ts";
import { counted } from "../text/number.ts";

const PAUSE_MS = 200;

export class Validation {
  readonly validity = signal<Validity | null>(null);
  readonly problem = signal<Problem | null>(null);
  /** Of the last text that was valid. */
  readonly graph = signal<Graph | null>(null);
  readonly isCurrent = signal(false);
  #timer = 0;
  #running: AbortController | undefined;

  check(text: string, pause = PAUSE_MS): void {
    window.clearTimeout(this.#timer);
    this.#running?.abort();
    this.isCurrent.value = false;
    this.#timer = window.setTimeout(() => void this.#ask(text), pause);
  }

  stop(): void {
    window.clearTimeout(this.#timer);
    this.#running?.abort();
  }

  async #ask(text: string): Promise<void> {
    const running = new AbortController();
    this.#running = running;
    try {
      const validity = await request<Validity>("POST", "/playbooks/validate", {
        query: { with: "graph" },
        yaml: text,
        signal: running.signal,
      });
      if (running.signal.aborted) return;
      this.validity.value = validity;
      this.problem.value = null;
      this.isCurrent.value = true;
      if (validity.graph) this.graph.value = validity.graph;
    } catch (error) {
      if (running.signal.aborted) return;
      this.problem.value = Problem.of(error);
    }
  }
}

/** "1 error, 2 warnings", "No problems". */
export function problemWords(validity: Validity | null): string {
  if (!validity) return "";
  const errors = validity.problems.filter(({ severity }) => severity === "error").length;
  const warnings = validity.problems.length - errors;
  const words = [errors ? counted(errors, "error") : "", warnings ? counted(warnings, "warning") : ""];
  return words.filter(Boolean).join(", ") || "No problems";
}
