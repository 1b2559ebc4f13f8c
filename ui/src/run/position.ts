/** The event that a run is shown at. The URL has it; while the slider moves it is held here, so that moving writes no
 *  history and sends no request. */

import { batch, computed, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { parameter, setQuery } from "../location.ts";
import { whole } from "./selection.ts";

const REDRAW_MS = 100; // views that follow the slider redraw ten times a second
const SETTLED_MS = 150; // after the last movement
const FOLLOW_MS = 1000; // between two settled events while the run goes on
const SERIES_MS = 1000; // movements that follow each other this closely are one entry of the history

export class Position {
  /** Where the handle is while it moves: for the slider itself. */
  readonly pointer: Signal<number | null> = signal(null);
  /** The event that drawings show. */
  readonly at: ReadonlySignal<number>;
  readonly isPast: ReadonlySignal<boolean>;
  /** The event that requests are made for: `at`, 150 ms after the last movement. */
  readonly settled: Signal<number> = signal(0);
  /** Whether the slider has not come to rest: nothing is requested. */
  readonly isMoving = computed(() => this.pointer.value !== null && this.pointer.value !== this.settled.value);
  readonly #latest: ReadonlySignal<number>;
  readonly #moving: Signal<number | null> = signal(null);
  #commits = false;
  #committedAt = Number.NEGATIVE_INFINITY;
  #redrawTimer = 0;
  #settleTimer = 0;
  #dispose = () => {};

  constructor(latest: ReadonlySignal<number>) {
    this.#latest = latest;
    const chosen = computed(() => this.#moving.value ?? whole(parameter("at")));
    this.at = computed(() => this.#clamped(chosen.value ?? latest.value));
    this.isPast = computed(() => chosen.value !== null && this.at.value < latest.value);
  }

  start(): void {
    this.settled.value = this.at.value;
    this.#dispose = effect(() => this.#follow(this.at.value, this.isPast.value));
  }

  stop(): void {
    this.#dispose();
    this.#clearTimers();
  }

  /** Moves the view; with `commits` the event goes into the URL when the movement settles. */
  move(seq: number, commits: boolean): void {
    this.#commits = commits;
    this.pointer.value = this.#clamped(seq);
    window.clearTimeout(this.#settleTimer);
    this.#settleTimer = window.setTimeout(() => this.#settle(), SETTLED_MS);
    if (!this.#redrawTimer) this.#redraw();
  }

  /** Puts an event into the URL. The latest one is no parameter, so that the view goes on following; null is the way
   *  back to it, which is a step of its own in the history. */
  commit(seq: number | null): void {
    const now = performance.now();
    const at = seq === null ? null : this.#clamped(seq);
    const replace = seq !== null && now - this.#committedAt < SERIES_MS;
    this.#clearTimers();
    this.#committedAt = seq === null ? Number.NEGATIVE_INFINITY : now;
    batch(() => {
      setQuery({ at: at === this.#latest.peek() ? null : at }, { replace });
      this.#moving.value = null;
      this.pointer.value = null;
      this.settled.value = at ?? this.#latest.peek();
    });
  }

  #clamped(seq: number): number {
    return Math.max(1, Math.min(Math.round(seq), this.#latest.value));
  }

  #redraw(): void {
    this.#redrawTimer = 0;
    const pointer = this.pointer.peek();
    if (pointer === null || pointer === this.#moving.peek()) return;
    this.#moving.value = pointer;
    this.#redrawTimer = window.setTimeout(() => this.#redraw(), REDRAW_MS);
  }

  #settle(): void {
    const pointer = this.pointer.peek();
    this.#settleTimer = 0;
    if (pointer === null) this.settled.value = this.at.peek();
    else if (this.#commits) this.commit(pointer);
    else
      batch(() => {
        this.#moving.value = pointer;
        this.settled.value = pointer;
      });
  }

  /** Links, Back and new events change the event, too. */
  #follow(at: number, isPast: boolean): void {
    if (this.pointer.peek() !== null || this.settled.peek() === at || (this.#settleTimer && !isPast)) return;
    window.clearTimeout(this.#settleTimer);
    this.#settleTimer = window.setTimeout(() => this.#settle(), isPast ? SETTLED_MS : FOLLOW_MS);
  }

  #clearTimers(): void {
    window.clearTimeout(this.#settleTimer);
    window.clearTimeout(this.#redrawTimer);
    this.#settleTimer = this.#redrawTimer = 0;
  }
}
