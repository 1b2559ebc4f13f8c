/** The list that the user came from, so that the run view can go to its next and previous run. */

import { get } from "../api/client.ts";
import type { ExecutionPage } from "../api/types.gen.ts";
import { readJson, writeText } from "../storage.ts";

const KEY = "noetl.list";
const MAX_RUNS = 10_000;

export type ListQuery = Record<string, string | string[] | number>;

interface RunList {
  ids: string[];
  query: ListQuery;
  next: string | null; // the cursor of the runs after these
}

export function rememberList({ ids, query, next }: RunList): void {
  writeText("sessionStorage", KEY, JSON.stringify({ ids: ids.slice(-MAX_RUNS), query, next }));
}

/** The run `step` places after another one in the list, null at its ends. Behind the last one that was loaded, the next
 *  page is loaded. */
export async function neighbour(id: string, step: 1 | -1): Promise<string | null> {
  const list = readJson("sessionStorage", KEY) as RunList | null;
  const place = list?.ids.indexOf(id) ?? -1;
  if (!list || place < 0) return null;
  if (place + step === list.ids.length && list.next !== null) {
    const page = await get<ExecutionPage>("/executions", { query: { ...list.query, cursor: list.next } });
    list.ids.push(...page.items.map(({ execution_id }) => execution_id));
    rememberList({ ...list, next: page.next });
  }
  return list.ids[place + step] ?? null;
}
