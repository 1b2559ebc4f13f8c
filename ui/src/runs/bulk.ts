/** One action on many runs: one request for each, six at a time, a result for each. */

import { idempotencyKey, Problem, post } from "../api/client.ts";

export interface BulkResult {
  id: string;
  error: string | null;
}

const AT_ONCE = 6;

export type BulkAction = "cancel" | "retry";

export function bulk(action: BulkAction, ids: string[], onResult: (result: BulkResult) => void): Promise<BulkResult[]> {
  return each(
    ids,
    (id) =>
      post(`/executions/${encodeURIComponent(id)}/${action}`, {}, { headers: { "Idempotency-Key": idempotencyKey() } }),
    onResult,
  );
}

/** Calls a function for each id, at most six at a time; a failure is a result and stops nothing. */
export async function each(
  ids: string[],
  call: (id: string) => Promise<unknown>,
  onResult: (result: BulkResult) => void = () => {},
): Promise<BulkResult[]> {
  const waiting = [...ids];
  const results: BulkResult[] = [];
  const work = async () => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      const error = await call(id).then(
        () => null,
        (reason) => (reason instanceof Problem ? reason.message : String(reason)),
      );
      results.push({ id, error });
      onResult({ id, error });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return results;
}
