/** The list of runs as the page holds it: pages by cursor, polled with their ETag. */

import { batch, type Signal, signal } from "@preact/signals";
import { answer, get, Problem, send } from "../api/client.ts";
import { CANCELLED } from "../api/resource.ts";
import type { ExecutionPage, ExecutionSummary } from "../api/types.gen.ts";
import { type ListQuery, rememberList } from "./last-list.ts";
import { changedInPlace, isActive, missing, newRuns } from "./rows.ts";

const ACTIVE_MS = 2_000;
const IDLE_MS = 10_000;
const PAGE = 100;
const LOOKUP_ROWS = 10; // rows at a time that left the filter

export class RunsModel {
  readonly rows: Signal<ExecutionSummary[] | undefined> = signal(undefined);
  readonly problem: Signal<Problem | undefined> = signal(undefined);
  readonly fresh = signal(0); // runs that were started since, held back behind a button
  readonly hasMore = signal(false);
  #next: string | null = null;
  #loadingMore = false;
  #etag = "";
  #visible: [number, number] = [0, 0];
  #timer = 0;
  #loading = new AbortController();
  #stopped = false;
  readonly #query: () => ListQuery;

  constructor(query: () => ListQuery) {
    this.#query = query;
  }

  start = async (): Promise<void> => {
    await this.reload();
    this.#plan();
  };

  stop = (): void => {
    this.#stopped = true;
    window.clearTimeout(this.#timer);
  };

  /** Cancels loading; the list offers to retry. */
  cancel = (): void => this.#loading.abort();

  /** Shows the newest runs, those held back too. */
  reload = async (): Promise<void> => {
    this.#loading = new AbortController();
    const { signal } = this.#loading;
    try {
      const page = await get<ExecutionPage>("/executions", { query: this.#query(), signal });
      if (this.#stopped) return;
      this.#etag = "";
      this.#next = page.next;
      batch(() => {
        this.rows.value = page.items;
        this.hasMore.value = page.next !== null;
        this.fresh.value = 0;
        this.problem.value = undefined;
      });
    } catch (error) {
      if (!this.#stopped) this.problem.value = signal.aborted ? CANCELLED : Problem.of(error);
    }
  };

  /** Keeps the list for the keys of the run view that go to its next and previous run. */
  remember = (): void => {
    const ids = (this.rows.peek() ?? []).map(({ execution_id }) => execution_id);
    if (ids.length) rememberList({ ids, query: this.#query(), next: this.#next });
  };

  /** Rows came into view: the next page is loaded before its first row is needed. */
  show = (first: number, last: number): void => {
    this.#visible = [first, last];
    if (last > (this.rows.peek()?.length ?? 0) - PAGE / 2) void this.#loadMore();
  };

  async #loadMore(): Promise<void> {
    if (this.#next === null || this.#loadingMore) return;
    this.#loadingMore = true;
    try {
      const page = await get<ExecutionPage>("/executions", { query: { ...this.#query(), cursor: this.#next } });
      if (this.#stopped) return;
      this.#next = page.next;
      batch(() => {
        this.rows.value = [...(this.rows.peek() ?? []), ...page.items];
        this.hasMore.value = page.next !== null;
      });
    } catch {
      // The rows that are there stay; scrolling asks again.
    } finally {
      this.#loadingMore = false;
    }
  }

  #plan(): void {
    if (this.#stopped) return;
    const [first, last] = this.#visible;
    const isBusy = this.rows.peek()?.slice(first, last).some(isActive);
    this.#timer = window.setTimeout(() => void this.#poll(), isBusy ? ACTIVE_MS : IDLE_MS);
  }

  async #poll(): Promise<void> {
    try {
      if (document.visibilityState === "visible") await this.#refresh();
    } catch {
      // The connection indicator shows that the server is out of reach; the rows stay.
    }
    this.#plan();
  }

  async #refresh(): Promise<void> {
    const headers: Record<string, string> = this.#etag ? { "If-None-Match": this.#etag } : {};
    const response = await send("GET", "/executions", { query: this.#query(), headers });
    const rows = this.rows.peek() ?? [];
    let newer: ExecutionSummary[] = [];
    if (response.status !== 304) {
      newer = (await answer<ExecutionPage>(response)).items;
      this.#etag = response.headers.get("ETag") ?? "";
      this.fresh.value = rows.length ? newRuns(rows, newer) : 0;
      if (!rows.length && newer.length) return this.reload();
    }
    const [first, last] = this.#visible;
    const gone =
      response.status === 304
        ? rows.slice(Math.max(PAGE, first), last).filter(isActive)
        : missing(rows.slice(first, last), newer);
    newer.push(...(await this.#lookUp(gone)));
    if (!this.#stopped && newer.length) this.rows.value = changedInPlace(this.rows.peek() ?? [], newer);
  }

  /** Rows that are in view but not on the first page, or no longer match the filter are loaded again. */
  async #lookUp(runs: ExecutionSummary[]): Promise<ExecutionSummary[]> {
    const pages = runs
      .slice(0, LOOKUP_ROWS)
      .map((run) => get<ExecutionPage>("/executions", { query: { prefix: run.execution_id, limit: 1 } }));
    return (await Promise.all(pages)).flatMap((page) => page.items);
  }
}
