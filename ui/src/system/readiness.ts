/** What the server depends on; /readyz is outside of the API and answers 503 with the same shape when something is down. */

import type { Signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Readiness } from "../api/types.gen.ts";

const EVERY_MS = 5_000;

async function load(): Promise<Readiness | null> {
  try {
    return (await (await fetch("/readyz")).json()) as Readiness;
  } catch {
    return null; // the connection indicator says that the server is out of reach
  }
}

export const readiness = {
  /** Keeps a signal up to date while the view is open. */
  useEvery(state: Signal<Readiness | null>): void {
    useEffect(() => {
      const ask = async () => {
        if (document.visibilityState === "visible") state.value = (await load()) ?? state.peek();
      };
      void ask();
      const timer = window.setInterval(() => void ask(), EVERY_MS);
      return () => window.clearInterval(timer);
    }, [state]);
  },
};
