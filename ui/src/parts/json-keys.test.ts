import assert from "node:assert/strict";
import { test } from "node:test";
import { keyTarget } from "./json-keys.ts";
import { rootEntries, treeRows } from "./json-rows.ts";

const value = { a: { b: 1 }, c: { d: 2 }, e: 3 };
const rows = treeRows(rootEntries(value), "", {
  open: new Map([["a", 100]]),
  tables: new Set(),
  contents: new Map(),
  found: null,
}); // a, a.b, c, e

test("arrows open, close, and move between parent and child", () => {
  const cases: [string, number, number | "act" | null][] = [
    ["ArrowDown", 0, 1],
    ["ArrowUp", 0, 0],
    ["ArrowRight", 0, 1],
    ["ArrowRight", 2, "act"],
    ["ArrowRight", 3, null],
    ["ArrowLeft", 0, "act"],
    ["ArrowLeft", 1, 0],
    ["ArrowLeft", 2, null],
    ["Enter", 2, "act"],
    ["End", 0, 3],
    ["x", 0, null],
  ];
  for (const [key, active, target] of cases) assert.equal(keyTarget(key, rows, active), target, `${key} at ${active}`);
});
