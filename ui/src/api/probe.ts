/** While the server is unreachable, polls it until it responds: a view that does not poll would never notice. */

import { effect } from "@preact/signals";
import { connection } from "../clock.ts";
import { send } from "./client.ts";

const FIRST_MS = 1000;
const LONGEST_MS = 30_000;

export function startProbing(): void {
  let isProbing = false;
  effect(() => {
    if (connection.value === "online" || isProbing) return;
    isProbing = true;
    void probe().finally(() => {
      isProbing = false;
    });
  });
}

async function probe(): Promise<void> {
  for (let wait = FIRST_MS; connection.peek() !== "online"; wait = Math.min(2 * wait, LONGEST_MS)) {
    await new Promise((resolve) => window.setTimeout(resolve, wait));
    const isWanted = connection.peek() !== "online" && document.visibilityState === "visible";
    if (isWanted) await send("GET", "/sessions", { anonymous: true }).catch(() => undefined);
  }
}
