/** The response to a signal, in words. */

import type { SignalAnswer } from "../api/types.gen.ts";

export function answerWords({ name, answer, pending, awaited }: SignalAnswer): { text: string; tone: "good" | "bad" } {
  switch (answer) {
    case "accepted":
      return pending
        ? { text: `Signal ${name} is stored: no step waits for it yet.${awaitedWords(awaited)}`, tone: "good" }
        : { text: `Signal ${name} accepted.`, tone: "good" };
    case "duplicate":
      return { text: `Signal ${name} was received before. Nothing changed.`, tone: "bad" };
    case "late":
      return { text: `Signal ${name} was not accepted: the run has ended.`, tone: "bad" };
    default:
      return { text: `Signal ${name} was dropped: no step waits for it.${awaitedWords(awaited)}`, tone: "bad" };
  }
}

function awaitedWords(awaited: string[]): string {
  return awaited.length ? ` The run waits for: ${awaited.join(", ")}.` : " The run waits for no signal.";
}
