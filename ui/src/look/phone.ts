import { signal } from "@preact/signals";

/** Below 900 px panes become tabs and sheets. */
const narrow = window.matchMedia("(max-width: 899px)");

export const isPhone = signal(narrow.matches);

narrow.addEventListener("change", () => {
  isPhone.value = narrow.matches;
});
