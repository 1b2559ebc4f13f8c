import { signal } from "@preact/signals";

/** Below 900 px panes become tabs and sheets. */
const narrow = window.matchMedia("(max-width: 899px)");

const touch = window.matchMedia("(pointer: coarse)");

/** The height of a row that is a target. A lower one is a line of text, and does not grow. */
export const rowPixels = (height: number): number => (touch.matches && height >= 24 ? Math.max(40, height) : height);

export const isPhone = signal(narrow.matches);

narrow.addEventListener("change", () => {
  isPhone.value = narrow.matches;
});
