import assert from "node:assert/strict";
import { test } from "node:test";
import { columnOfIndex, indexOfColumn } from "./columns.ts";

const LINE = "a\u{1f600}b\u{1f601}c";

test("columns count characters, indexes count UTF-16 units", () => {
  assert.equal(LINE[indexOfColumn(LINE, 3)], "b");
  assert.equal(LINE[indexOfColumn(LINE, 5)], "c");
  assert.equal(indexOfColumn(LINE, 99), LINE.length);
  for (const column of [1, 2, 3, 4, 5, 6]) assert.equal(columnOfIndex(LINE, indexOfColumn(LINE, column)), column);
});
