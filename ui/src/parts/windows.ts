/** The rows of a list of known length, loaded in pages where they come into view; a few pages are kept. */

import { signal } from "@preact/signals";
import { Problem } from "../api/client.ts";

export const PAGE_ROWS = 100;
const MAX_PAGES = 50;
const SETTLED_MS = 60; // a list that is scrolled fast loads only where it comes to rest
const GROWING_MS = 300; // rows that were added to a page that is here already

type LoadRows<T> = (first: number, limit: number, signal: AbortSignal) => Promise<T[]>;

export class Windows<T> {
  readonly problem = signal<Problem | undefined>(undefined);
  readonly #version = signal(0);
  readonly #load: LoadRows<T>;
  #pages = new Map<number, { rows: T[]; isStale: boolean }>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #running = new Map<number, AbortController>();
  #wanted: [first: number, last: number] = [0, 0];

  constructor(load: LoadRows<T>) {
    this.#load = load;
  }

  /** A row, undefined while it is loaded. */
  row(place: number): T | undefined {
    this.#version.value; // read, so that a component that shows the row is rendered again when rows arrive
    return this.#pages.get(Math.floor(place / PAGE_ROWS))?.rows[place % PAGE_ROWS];
  }

  /** Loads the rows from first to before last, if they are not here. */
  want(first: number, last: number): void {
    this.#wanted = [first, last];
    clearTimeout(this.#timer);
    const missing = this.#missing();
    if (!missing.length) return;
    const isGrowing = missing.every((page) => this.#pages.has(page));
    const wait = isGrowing ? GROWING_MS : this.#pages.size ? SETTLED_MS : 0;
    this.#timer = setTimeout(() => this.#loadMissing(), wait);
  }

  /** Puts a new row at the end of its page, if that page is complete up to there. */
  put(place: number, row: T): void {
    const page = Math.floor(place / PAGE_ROWS);
    const rows = this.#pages.get(page)?.rows ?? [];
    if (rows.length !== place % PAGE_ROWS) return;
    this.#keep(page, [...rows, row]);
  }

  /** Loads the rows in view again; they stay until the new ones arrive. */
  refresh(): void {
    for (const page of this.#pages.values()) page.isStale = true;
    this.#loadMissing();
  }

  stop(): void {
    clearTimeout(this.#timer);
    for (const running of this.#running.values()) running.abort();
    this.#running.clear();
  }

  #missing(): number[] {
    const [first, last] = this.#wanted;
    const missing: number[] = [];
    for (let page = Math.floor(first / PAGE_ROWS); page * PAGE_ROWS < last; page += 1) {
      const known = this.#pages.get(page);
      const needed = Math.min(PAGE_ROWS, last - page * PAGE_ROWS);
      if (!known || known.isStale || known.rows.length < needed) missing.push(page);
    }
    return missing;
  }

  #loadMissing(): void {
    const missing = this.#missing();
    for (const [page, running] of this.#running)
      if (!missing.includes(page)) {
        running.abort();
        this.#running.delete(page);
      }
    for (const page of missing) if (!this.#running.has(page)) void this.#loadPage(page);
  }

  async #loadPage(page: number): Promise<void> {
    const running = new AbortController();
    this.#running.set(page, running);
    try {
      const rows = await this.#load(page * PAGE_ROWS, PAGE_ROWS, running.signal);
      if (running.signal.aborted) return;
      this.#keep(page, rows);
      this.problem.value = undefined;
    } catch (error) {
      if (!running.signal.aborted) this.problem.value = Problem.of(error);
    } finally {
      if (this.#running.get(page) === running) this.#running.delete(page);
    }
  }

  #keep(page: number, rows: T[]): void {
    this.#pages.delete(page);
    this.#pages.set(page, { rows, isStale: false });
    const oldest = this.#pages.keys().next();
    if (this.#pages.size > MAX_PAGES && !oldest.done) this.#pages.delete(oldest.value);
    this.#version.value += 1;
  }
}
