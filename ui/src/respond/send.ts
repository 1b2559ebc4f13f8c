/** Sends a signal and reports the response. */

import { post } from "../api/client.ts";
import type { RepeatKey } from "../api/repeat-key.ts";
import type { SignalAnswer } from "../api/types.gen.ts";
import { toast } from "../parts/toast.tsx";
import { answerWords } from "./answer.ts";

/** `key` makes a repeated request the same signal, and a changed one another. */
export async function sendSignal(id: string, name: string, payload: unknown, key: RepeatKey): Promise<void> {
  const signal = { name, payload };
  const answer = await post<SignalAnswer>(`/executions/${encodeURIComponent(id)}/signals`, signal, {
    headers: key.headers(signal),
  });
  const { text, tone } = answerWords(answer);
  toast(text, { tone });
}
