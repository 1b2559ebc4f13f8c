/** Sends a signal and tells what became of it. */

import { post } from "../api/client.ts";
import type { SignalAnswer } from "../api/types.gen.ts";
import { toast, toastProblem } from "../parts/toast.tsx";
import { answerWords } from "./answer.ts";

/** True if the server answered; `key` makes a repeated request the same signal. */
export async function sendSignal(id: string, name: string, payload: unknown, key: string): Promise<boolean> {
  try {
    const headers = { "Idempotency-Key": key };
    const answer = await post<SignalAnswer>(
      `/executions/${encodeURIComponent(id)}/signals`,
      { name, payload },
      { headers },
    );
    const { text, tone } = answerWords(answer);
    toast(text, { tone });
    return true;
  } catch (error) {
    toastProblem(`Signal ${name} was not sent`, error);
    return false;
  }
}
