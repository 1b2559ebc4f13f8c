/** Which lines of the output are chosen, by dragging, by Shift and by Ctrl A. Text inside of one line stays the browser's. */

import { type Signal, signal } from "@preact/signals";
import { setQuery } from "../../location.ts";
import { END } from "../../parts/paged.ts";
import { type LineRange, rangeText } from "./lines.ts";

export class LineChoice {
  /** Several lines, null if there are none. */
  readonly range: Signal<LineRange | null> = signal(null);
  #anchor: number | null = null;
  #isDragging = false;

  has(number: number): boolean {
    const range = this.range.value;
    return range !== null && range[0] <= number && number <= range[1];
  }

  onPointerDown = (event: PointerEvent): void => {
    const number = lineOf(event.target);
    if (number === null || event.button !== 0 || isControl(event.target)) return;
    if (event.shiftKey && this.#anchor !== null) {
      event.preventDefault(); // the browser would extend its selection through rows that are not there
      this.#choose(number);
      return;
    }
    this.range.value = null;
    this.#anchor = number;
    this.#isDragging = true;
  };

  onPointerMove = (event: PointerEvent): void => {
    if (!this.#isDragging || !(event.buttons & 1)) return;
    const number = lineOf(document.elementFromPoint(event.clientX, event.clientY));
    if (number === null || (number === this.#anchor && !this.range.peek())) return;
    this.#choose(number);
  };

  onPointerUp = (): void => {
    this.#isDragging = false;
    const range = this.range.peek();
    if (!range) return;
    window.getSelection()?.removeAllRanges();
    setQuery({ line: rangeText(range) }, { replace: true });
  };

  onKeyDown = (event: KeyboardEvent): void => {
    if (event.key.toLowerCase() !== "a" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    this.range.value = [0, END];
  };

  #choose(number: number): void {
    const anchor = this.#anchor ?? number;
    this.range.value = [Math.min(anchor, number), Math.max(anchor, number)];
  }
}

function isControl(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("a, button, input") !== null;
}

function lineOf(target: EventTarget | null): number | null {
  const row = target instanceof Element ? target.closest<HTMLElement>("[data-line]") : null;
  return row?.dataset.line ? Number(row.dataset.line) : null;
}
