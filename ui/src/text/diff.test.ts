import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_CHANGES, valueDiff } from "./diff.ts";

const shape = (before: unknown, after: unknown) =>
  valueDiff(before, after).map(({ kind, path }) => `${kind} ${path.join(".")}`);

test("equal values have no changes", () => {
  assert.deepEqual(valueDiff({ a: [1, { b: null }] }, { a: [1, { b: null }] }), []);
  assert.deepEqual(valueDiff(Number.NaN, Number.NaN), []);
});

test("keys and items that were added, removed and changed are listed in order", () => {
  const before = { a: 1, b: [1, 2, 3], c: { d: "x" } };
  const after = { a: 2, b: [1, 9], c: { d: "x", e: true }, f: null };
  assert.deepEqual(shape(before, after), ["changed a", "changed b.1", "removed b.2", "added c.e", "added f"]);
});

test("values of different kinds are one change", () => {
  assert.deepEqual(shape({ a: [1] }, { a: { 0: 1 } }), ["changed a"]);
  assert.deepEqual(shape(1, "1"), ["changed "]);
});

test("deep values do not overflow and many changes are cut", () => {
  let [before, after]: [unknown, unknown] = [1, 2];
  for (let depth = 0; depth < 5_000; depth += 1) [before, after] = [[before], [after]];
  assert.equal(valueDiff(before, after).length, 1);
  assert.equal(
    valueDiff(
      Array.from({ length: 5_000 }, () => 1),
      [],
    ).length,
    MAX_CHANGES,
  );
});
