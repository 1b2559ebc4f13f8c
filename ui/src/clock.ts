/** Server time and the connection: running clocks stop while the server is out of reach. */

import { computed, signal } from "@preact/signals";

let offset = 0; // of the server's clock to ours, from the Date header
const ticks = signal(Date.now());
const lost = signal<number | null>(null); // since when requests fail
const failures = signal(0);

type Connection = "online" | "reconnecting" | "down";

export const connection = computed<Connection>(() =>
  lost.value === null ? "online" : failures.value >= 3 ? "down" : "reconnecting",
);
/** Server time; it stops while there is no connection. */
export const now = computed(() => (lost.value ?? ticks.value) + offset);
export const lostSince = computed(() => (lost.value === null ? null : lost.value + offset));

export function recordResponse(date: string | null): void {
  const server = date ? Date.parse(date) : Number.NaN;
  // The header has whole seconds: half a second is its mean error, and small changes would make clocks jump.
  if (!Number.isNaN(server) && Math.abs(server + 500 - Date.now() - offset) > 2000) offset = server + 500 - Date.now();
  if (lost.peek() !== null) lost.value = null;
  if (failures.peek() !== 0) failures.value = 0;
}

export function recordFailure(): void {
  if (lost.peek() === null) lost.value = Date.now();
  failures.value += 1;
}

export function startClock(): void {
  window.setInterval(() => {
    if (document.visibilityState === "visible") ticks.value = Date.now();
  }, 1000);
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") ticks.value = Date.now();
  });
}
