/** The decisions about what is selected, as the slider goes through them. */

import { get } from "../../api/client.ts";
import type { Explanation } from "../../api/types.gen.ts";
import type { RunModel } from "../model.ts";
import type { Selection } from "../selection.ts";

const PAGE = 200;
const MAX_PAGES = 20;

/** Whether there is something that decisions are about. */
export function hasDecisions({ step, arc }: Selection): boolean {
  return Boolean(step || arc);
}

/** The event of the next decision about the selection, null if there is none. */
export async function neighbourDecision(
  model: RunModel,
  selection: Selection,
  seq: number,
  direction: 1 | -1,
): Promise<number | null> {
  const { step, run, item, arc } = selection;
  const about = arc ? { arc } : { step, run, item };
  const page = (before: number | null, limit: number) =>
    get<Explanation>(model.path("explain"), { query: { ...about, before, limit } });
  const seqs = ({ decisions }: Explanation) => decisions.map((decision) => decision.seq);
  if (direction < 0) {
    const earlier = seqs(await page(seq, 1)).filter((decision) => decision < seq);
    return earlier.length ? Math.max(...earlier) : null;
  }
  let [before, nearest]: [number | null, number | null] = [null, null];
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const explanation = await page(before, PAGE); // pages go from the newest decision to the oldest
    const [all, next] = [seqs(explanation), explanation.next];
    const later = all.filter((decision) => decision > seq);
    if (later.length) nearest = Math.min(...later);
    if (later.length < all.length || next === null) break;
    before = next;
  }
  return nearest;
}
