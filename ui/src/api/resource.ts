/** Data of the API for a view: loaded, reloaded, polled with its ETag; old data stays while new data loads. */

import { type Signal, signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { answer, Problem, send } from "./client.ts";

export const CANCELLED = new Problem({ title: "Loading was cancelled." });

export class Resource<T> {
  readonly data: Signal<T | undefined> = signal(undefined);
  readonly problem: Signal<Problem | undefined> = signal(undefined);
  readonly loading = signal(false);
  readonly #path: string;
  #etag = "";
  #running: AbortController | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  /** Loads the newest data; a running request is abandoned. */
  load = async (): Promise<void> => {
    this.#running?.abort();
    const running = new AbortController();
    this.#running = running;
    this.loading.value = true;
    try {
      const headers: Record<string, string> = this.#etag ? { "If-None-Match": this.#etag } : {};
      const response = await send("GET", this.#path, { headers, signal: running.signal });
      if (response.status !== 304) {
        const data = await answer<T>(response);
        if (running.signal.aborted) return;
        this.#etag = response.headers.get("ETag") ?? "";
        this.data.value = data;
      }
      this.problem.value = undefined;
    } catch (error) {
      if (running.signal.aborted) return;
      this.problem.value = Problem.of(error);
    } finally {
      if (this.#running === running) this.loading.value = false;
    }
  };

  stop = (): void => this.#running?.abort();

  /** Cancels loading; the view offers to retry. */
  cancel = (): void => {
    this.stop();
    this.problem.value = CANCELLED;
  };
}

/** The data under a path of the API (with its query), loaded again when the path changes; null loads nothing.
 *  `pollMs` is the polling interval, null without polling; a hidden tab does not poll. */
export function useResource<T>(path: string | null, pollMs?: (data: T | undefined) => number | null): Resource<T> {
  const resource = useMemo(() => new Resource<T>(path ?? ""), [path]);
  useEffect(() => {
    if (path === null) return;
    void resource.load();
    return resource.stop;
  }, [path, resource]);
  useEffect(() => {
    if (path === null || !pollMs) return;
    let timer = 0;
    const plan = () => {
      const wait = pollMs(resource.data.peek());
      if (wait !== null) timer = window.setTimeout(ask, wait);
    };
    const ask = async () => {
      if (document.visibilityState === "visible") await resource.load();
      plan();
    };
    plan();
    return () => window.clearTimeout(timer);
  }, [path, resource, pollMs]);
  return resource;
}
