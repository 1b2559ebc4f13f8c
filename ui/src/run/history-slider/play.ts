/** Plays the events of a run, 1, 10 or 100 a second. */

import { signal } from "@preact/signals";
import { preference } from "../../preferences.ts";
import type { RunModel } from "../model.ts";

export const RATES = [1, 10, 100] as const;
type Rate = (typeof RATES)[number];
const TICKS = 10; // movements a second, at most

export const rate = preference<Rate>("play-rate", (text) => RATES.find((known) => String(known) === text) ?? 10);

export class Player {
  readonly isPlaying = signal(false);
  readonly #model: RunModel;
  #timer = 0;

  constructor(model: RunModel) {
    this.#model = model;
  }

  toggle = (): void => {
    if (this.isPlaying.peek()) this.pause();
    else this.#play();
  };

  /** Stops where it is; the event goes into the URL. */
  pause = (): void => {
    if (!this.isPlaying.peek()) return;
    this.stop();
    this.#model.moveTo(this.#here);
  };

  stop = (): void => {
    window.clearTimeout(this.#timer);
    this.isPlaying.value = false;
  };

  get #here(): number {
    return this.#model.position.pointer.peek() ?? this.#model.at.peek();
  }

  /** At the latest event it begins again with the first one. */
  #play(): void {
    this.isPlaying.value = true;
    if (!this.#model.isPast.peek()) this.#model.moveTo(1, { settled: false });
    this.#plan();
  }

  #plan(): void {
    const wait = 1000 / Math.min(rate.peek(), TICKS);
    this.#timer = window.setTimeout(() => {
      const next = this.#here + Math.max(1, rate.peek() / TICKS);
      if (next >= this.#model.latest.peek()) {
        this.stop();
        this.#model.backToLatest();
      } else {
        this.#model.moveTo(next, { settled: false });
        this.#plan();
      }
    }, wait);
  }
}
