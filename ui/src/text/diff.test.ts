import assert from "node:assert/strict";
import { test } from "node:test";
import { leafPairs, MAX_PAIRS } from "./diff.ts";

const changes = (before: unknown, after: unknown) =>
  leafPairs(before, after, true).map(({ kind, path }) => `${kind} ${path.join(".")}`);

test("equal values have no changes", () => {
  assert.deepEqual(changes({ a: [1, { b: null }], c: {} }, { c: {}, a: [1, { b: null }] }), []);
  assert.deepEqual(changes(Number.NaN, Number.NaN), []);
  assert.deepEqual(changes([], []), []);
});

test("keys and items that were added, removed and changed are listed in order", () => {
  const before = { a: 1, b: [1, 2, 3], c: { d: "x" } };
  const after = { a: 2, b: [1, 9], c: { d: "x", e: true }, f: null };
  assert.deepEqual(changes(before, after), ["changed a", "changed b.1", "removed b.2", "added c.e", "added f"]);
});

test("leaves of both values stand side by side, also those of one side only", () => {
  const pairs = leafPairs(
    { total: 1, order: { id: 7, lines: [1, 2], tags: [] } },
    { total: 2, order: { id: 7, lines: [1], tags: [] } },
  );
  assert.deepEqual(
    pairs.map(({ path, kind }) => `${kind} ${path.join(".")}`),
    ["changed total", "same order.id", "same order.lines.0", "removed order.lines.1", "same order.tags"],
  );
  assert.deepEqual(pairs[3], { path: ["order", "lines", 1], kind: "removed", before: 2, after: undefined });
});

test("values of different kinds are one change", () => {
  assert.deepEqual(changes({ a: [1] }, { a: { 0: 1 } }), ["changed a"]);
  assert.deepEqual(changes(1, "1"), ["changed "]);
  assert.deepEqual(leafPairs({ a: 1 }, null), [{ path: [], kind: "changed", before: { a: 1 }, after: null }]);
});

test("deep values do not overflow and many changes are cut", () => {
  let [before, after]: [unknown, unknown] = [1, 2];
  for (let depth = 0; depth < 5_000; depth += 1) [before, after] = [[before], [after]];
  assert.equal(changes(before, after).length, 1);
  assert.equal(
    changes(
      Array.from({ length: 5_000 }, () => 1),
      [],
    ).length,
    MAX_PAIRS,
  );
});
