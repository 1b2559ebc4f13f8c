/** Two values, leaf by leaf. Pure; values may be deep, so nothing recurses. */

import { ExactNumber, isMap } from "./json.ts";

type Path = (string | number)[];

export interface LeafPair {
  path: Path;
  kind: "same" | "added" | "removed" | "changed";
  before: unknown; // undefined: not there
  after: unknown;
}

export const MAX_PAIRS = 1_000;

type Pair = Omit<LeafPair, "kind">;

const ABSENT = Symbol("absent");

/** The leaves of both values side by side, in order, or only those that differ; at most 1,000. Maps and lists are opened
 *  as long as both sides have them; items of lists are compared by their place. */
export function leafPairs(before: unknown, after: unknown, onlyChanges = false): LeafPair[] {
  const leaves: LeafPair[] = [];
  const stack: Pair[] = [{ path: [], before, after }];
  for (let pair = stack.pop(); pair && leaves.length < MAX_PAIRS; pair = stack.pop()) {
    const inside = pairsInside(pair);
    if (inside?.length) stack.push(...inside.reverse());
    else {
      const leaf = leafOf(pair, inside !== null);
      if (!onlyChanges || leaf.kind !== "same") leaves.push(leaf);
    }
  }
  return leaves;
}

function leafOf({ path, before, after }: Pair, areEmpty: boolean): LeafPair {
  if (before === ABSENT) return { path, kind: "added", before: undefined, after };
  if (after === ABSENT) return { path, kind: "removed", before, after: undefined };
  return { path, kind: areEmpty || isSame(before, after) ? "same" : "changed", before, after };
}

function isSame(before: unknown, after: unknown): boolean {
  if (before instanceof ExactNumber && after instanceof ExactNumber) return before.text === after.text;
  return Object.is(before, after);
}

/** The pairs of two lists or two maps, null for all other values. */
function pairsInside({ path, before, after }: Pair): Pair[] | null {
  const areLists = Array.isArray(before) && Array.isArray(after);
  if (!areLists && !(isMap(before) && isMap(after))) return null;
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  const inside = (value: object, name: string) =>
    Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : ABSENT;
  return [...names].map((name) => ({
    path: [...path, areLists ? Number(name) : name],
    before: inside(before, name),
    after: inside(after, name),
  }));
}
