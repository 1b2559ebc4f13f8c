/** The rows of the list: loaded by page, changed in place, new ones held back until the user wants them. Pure. */

import type { ExecutionSummary } from "../api/types.gen.ts";

const ENDED = new Set(["succeeded", "failed", "cancelled"]);

export function isActive(run: ExecutionSummary): boolean {
  return !ENDED.has(run.status);
}

/** Rows with newer versions put in their places: nothing moves, nothing disappears. */
export function changedInPlace(rows: ExecutionSummary[], newer: ExecutionSummary[]): ExecutionSummary[] {
  const known = new Map(newer.map((run) => [run.execution_id, run]));
  return rows.map((row) => known.get(row.execution_id) ?? row);
}

/** Runs of the first page that the list does not have: they were started since. */
export function newRuns(rows: ExecutionSummary[], firstPage: ExecutionSummary[]): number {
  const known = new Set(rows.map((row) => row.execution_id));
  const place = firstPage.findIndex((run) => known.has(run.execution_id));
  return place < 0 ? firstPage.length : place;
}

/** Active rows that an answer for their page no longer has: they no longer match the filter, or ended. */
export function missing(rows: ExecutionSummary[], answer: ExecutionSummary[]): ExecutionSummary[] {
  const found = new Set(answer.map((run) => run.execution_id));
  return rows.filter((row) => isActive(row) && !found.has(row.execution_id));
}

/** The ids between two rows, both included: what Shift selects. */
export function range(rows: ExecutionSummary[], from: string, to: string): string[] {
  const [a, b] = [from, to].map((id) => rows.findIndex((row) => row.execution_id === id));
  if (a === undefined || b === undefined || a < 0 || b < 0) return [to];
  return rows.slice(Math.min(a, b), Math.max(a, b) + 1).map((row) => row.execution_id);
}
