/** The dependencies of the server. /readyz is outside of the API, and responds with 503 if one is down. */

import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Readiness } from "../api/types.gen.ts";

const EVERY_MS = 5_000;

/** The readiness, loaded again every five seconds while the tab is visible. */
export function useReadiness(): Signal<Readiness | null> {
  const state = useSignal<Readiness | null>(null);
  useEffect(() => {
    const load = async () => {
      if (document.visibilityState === "visible") state.value = (await readiness()) ?? state.peek();
    };
    void load();
    const timer = window.setInterval(() => void load(), EVERY_MS);
    return () => window.clearInterval(timer);
  }, [state]);
  return state;
}

async function readiness(): Promise<Readiness | null> {
  try {
    return (await (await fetch("/readyz")).json()) as Readiness;
  } catch {
    return null; // the connection indicator shows that the server is unreachable
  }
}
