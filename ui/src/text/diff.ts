/** How two values differ, as a list of changes. Pure; values may be deep, so nothing recurses. */

export interface Change {
  path: (string | number)[];
  kind: "added" | "removed" | "changed";
  before: unknown;
  after: unknown;
}

export const MAX_CHANGES = 1_000;

interface Pair {
  path: (string | number)[];
  before: unknown;
  after: unknown;
}

const ABSENT = Symbol("absent");

/** The changes from one value to another, in order; at most 1,000. Items of lists are compared by their place. */
export function valueDiff(before: unknown, after: unknown): Change[] {
  const changes: Change[] = [];
  const stack: Pair[] = [{ path: [], before, after }];
  for (let pair = stack.pop(); pair && changes.length < MAX_CHANGES; pair = stack.pop()) {
    const inside = pairsInside(pair);
    if (inside) for (let place = inside.length - 1; place >= 0; place -= 1) stack.push(inside[place] as Pair);
    else if (!Object.is(pair.before, pair.after)) changes.push(changeOf(pair));
  }
  return changes;
}

function changeOf({ path, before, after }: Pair): Change {
  if (before === ABSENT) return { path, kind: "added", before: undefined, after };
  if (after === ABSENT) return { path, kind: "removed", before, after: undefined };
  return { path, kind: "changed", before, after };
}

/** The pairs of two lists or two maps, null for all other values. */
function pairsInside({ path, before, after }: Pair): Pair[] | null {
  if (Array.isArray(before) && Array.isArray(after)) {
    const length = Math.max(before.length, after.length);
    return Array.from({ length }, (_, place) => ({
      path: [...path, place],
      before: place < before.length ? before[place] : ABSENT,
      after: place < after.length ? after[place] : ABSENT,
    }));
  }
  if (!isMap(before) || !isMap(after)) return null;
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].map((name) => ({
    path: [...path, name],
    before: Object.hasOwn(before, name) ? before[name] : ABSENT,
    after: Object.hasOwn(after, name) ? after[name] : ABSENT,
  }));
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
