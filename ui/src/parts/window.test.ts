import assert from "node:assert/strict";
import { test } from "node:test";
import { listWindow, MAX_HEIGHT_PX, scrollToRow } from "./window.ts";

test("a short list renders the rows in view and a few beside", () => {
  assert.deepEqual(listWindow(100, 20, 400, 200, 2), { first: 18, last: 32, offset: 360, height: 2000 });
  assert.deepEqual(listWindow(0, 20, 0, 200), { first: 0, last: 0, offset: 0, height: 0 });
});

test("a list of millions of rows reaches its first and last row", () => {
  const total = 1_000_000;
  const height = listWindow(total, 28, 0, 500).height;
  assert.equal(height, MAX_HEIGHT_PX);
  assert.equal(listWindow(total, 28, 0, 500).first, 0);
  assert.equal(listWindow(total, 28, height - 500, 500).last, total);
});

test("scrolling to any row brings it into view", () => {
  for (const total of [50, 1_000_000])
    for (const row of [0, 7, Math.floor(total / 2), total - 1]) {
      const top = scrollToRow(row, total, 28, 0, 280);
      const { first, last } = listWindow(total, 28, top, 280, 1);
      assert.ok(first <= row && row < last, `row ${row} of ${total} is not in ${first}..${last}`);
    }
});
