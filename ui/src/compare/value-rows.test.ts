import assert from "node:assert/strict";
import { test } from "node:test";
import { isEqual, valueRows } from "./value-rows.ts";

test("leaves of both values stand side by side, also those of one side only", () => {
  const rows = valueRows(
    "ctx",
    { total: 1, order: { id: 7, lines: [1, 2] } },
    { total: 2, order: { id: 7, lines: [1] } },
  );
  assert.deepEqual(
    rows.map(({ path, differs }) => (differs ? `${path}!` : path)),
    ["ctx.total!", "ctx.order.id", "ctx.order.lines[0]", "ctx.order.lines[1]!"],
  );
  assert.equal(rows[3]?.b, undefined);
});

test("a map beside another kind of value is one row", () => {
  assert.deepEqual(valueRows("result", { a: 1 }, null), [{ path: "result", a: { a: 1 }, b: null, differs: true }]);
});

test("the order of keys is no difference", () => {
  assert.ok(isEqual({ a: 1, b: [2] }, { b: [2], a: 1 }));
  assert.ok(!isEqual({ a: 1 }, { a: 1, b: 2 }));
});
