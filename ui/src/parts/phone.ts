import { signal } from "@preact/signals";

const query = window.matchMedia("(max-width: 899px)");

/** Whether the page is narrow: bars at the bottom, rows as cards. */
export const isPhone = signal(query.matches);
query.addEventListener("change", () => {
  isPhone.value = query.matches;
});
