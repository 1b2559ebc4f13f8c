/** A list that is read in both directions from where it starts, without knowing its length: filtered events, output. */

import { batch, type Signal, signal } from "@preact/signals";
import { Problem } from "../api/client.ts";

export interface Page<T> {
  items: T[];
  next: number | null; // `after` of the next page
  prev: number | null; // `before` of the page before it
  scanned_to: number | null;
}

interface PlaceOfPage {
  after?: number;
  before?: number;
}

type LoadPage<T> = (place: PlaceOfPage, signal: AbortSignal) => Promise<Page<T>>;

export const END = 2 ** 31 - 2; // after every position
const MAX_ITEMS = 20_000; // beyond, the other end is dropped
const ENOUGH_ITEMS = 50;
const MAX_REQUESTS = 5; // that find too little, before the user is asked to continue

type Direction = "earlier" | "later";

export class PagedList<T> {
  readonly items: Signal<readonly T[]> = signal([]);
  /** How many items were put before the first one so far, less those that were dropped there. */
  readonly added = signal(0);
  readonly busy: Signal<Direction | null> = signal(null);
  readonly problem: Signal<Problem | undefined> = signal(undefined);
  readonly hasStarted = signal(false);
  /** Where reading continues; null: nothing is there. */
  readonly earlierFrom: Signal<number | null> = signal(null);
  readonly laterFrom: Signal<number | null> = signal(null);
  /** Everything up to here was read; new items come after it. */
  tail = 0;
  readonly #load: LoadPage<T>;
  readonly #position: (item: T) => number;
  #running = new AbortController();

  constructor(load: LoadPage<T>, position: (item: T) => number) {
    this.#load = load;
    this.#position = position;
  }

  /** Begins around a position: 0 reads from the start, the end from there. New items come after the tail. */
  async start(position: number, end: number, tail = Math.min(position, end)): Promise<void> {
    this.stop();
    this.#running = new AbortController();
    batch(() => {
      this.items.value = [];
      this.added.value = 0;
      this.hasStarted.value = false;
      this.busy.value = null;
      this.earlierFrom.value = position > 0 ? position + 1 : null;
      this.laterFrom.value = position < end ? position : null;
    });
    this.tail = tail;
    const { signal: aborted } = this.#running;
    for (const direction of ["earlier", "later"] as const) {
      if (aborted.aborted) return;
      await this.read(direction);
      this.hasStarted.value = true;
    }
  }

  /** Whether a position is after the last item that was read. */
  isBeyond(position: number): boolean {
    const [first, last] = [this.earlierFrom.peek(), this.laterFrom.peek()];
    return (first !== null && position + 1 < first) || (last !== null && position > last);
  }

  stop(): void {
    this.#running.abort();
  }

  /** Reads on until there are enough items, or a while. */
  async read(direction: Direction): Promise<void> {
    if (this.busy.peek()) return;
    const { signal: aborted } = this.#running;
    this.busy.value = direction;
    try {
      let found = 0;
      for (let request = 0; request < MAX_REQUESTS && found < ENOUGH_ITEMS; request += 1) {
        const from = direction === "earlier" ? this.earlierFrom.peek() : this.laterFrom.peek();
        if (from === null) break;
        const page = await this.#load(direction === "earlier" ? { before: from } : { after: from }, aborted);
        if (aborted.aborted) return;
        this.#put(page, direction);
        found += page.items.length;
      }
      this.problem.value = undefined;
    } catch (error) {
      if (!aborted.aborted) this.problem.value = Problem.of(error);
    } finally {
      if (!aborted.aborted) this.busy.value = null;
    }
  }

  /** Reads the items after the tail, if all before it were read. */
  async readNew(): Promise<void> {
    if (this.busy.peek() || this.laterFrom.peek() !== null) return;
    this.laterFrom.value = this.tail;
    await this.read("later");
  }

  #put(page: Page<T>, direction: Direction): void {
    batch(() => {
      if (direction === "later") {
        this.laterFrom.value = page.next;
        this.tail = Math.max(this.tail, page.next ?? page.scanned_to ?? 0, ...page.items.slice(-1).map(this.#position));
        this.items.value = [...this.items.peek(), ...page.items];
      } else {
        this.earlierFrom.value = page.prev;
        this.tail = Math.max(this.tail, ...page.items.slice(-1).map(this.#position));
        this.items.value = [...page.items, ...this.items.peek()];
        this.added.value += page.items.length;
      }
      this.#drop(direction);
    });
  }

  /** Memory does not grow with the length of the log. */
  #drop(direction: Direction): void {
    const items = this.items.peek();
    const surplus = items.length - MAX_ITEMS;
    if (surplus <= 0) return;
    if (direction === "later") {
      this.items.value = items.slice(surplus);
      this.added.value -= surplus;
      this.earlierFrom.value = this.#position(items[surplus] as T);
    } else {
      this.items.value = items.slice(0, MAX_ITEMS);
      this.laterFrom.value = this.#position(items[MAX_ITEMS - 1] as T);
    }
  }
}
