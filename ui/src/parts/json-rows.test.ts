import assert from "node:assert/strict";
import { test } from "node:test";
import { parseJson } from "../text/json.ts";
import { expression, jsonText, rootEntries, searchTree, type TreeView, treeRows } from "./json-rows.ts";
import { columnsOf, kindOf, preview, referenceOf } from "./json-value.ts";

const REFERENCE = {
  store: "db",
  key: "ab12",
  size: 9_000,
  checksum: "sha256:ab12",
  schema_hint: "list",
  preview: { count: 300 },
};

function view(part: Partial<TreeView> = {}): TreeView {
  return { open: new Map(), tables: new Set(), contents: new Map(), found: null, ...part };
}

function ids(value: unknown, part: Partial<TreeView> = {}): string[] {
  return treeRows(rootEntries(value), "ctx", view(part)).map((row) => row.id);
}

test("an entry is named as a template names it", () => {
  assert.equal(
    expression(expression(expression("steps.fetch.result", "rows"), 0), "id"),
    "steps.fetch.result.rows[0].id",
  );
  assert.equal(expression("ctx", "first name"), 'ctx["first name"]');
  assert.equal(expression("", "ctx"), "ctx");
});

test("a closed value hides its entries and an open one shows them", () => {
  const value = { a: { b: [1, 2] }, c: 3 };
  assert.deepEqual(ids(value), ["ctx.a", "ctx.c"]);
  const open = new Map([
    ["ctx.a", 100],
    ["ctx.a.b", 100],
  ]);
  assert.deepEqual(ids(value, { open }), ["ctx.a", "ctx.a.b", "ctx.a.b[0]", "ctx.a.b[1]", "ctx.c"]);
});

test("a long list is shown in pages of 100", () => {
  const value = { rows: Array.from({ length: 250 }, (_, n) => n) };
  const first = treeRows(rootEntries(value), "ctx", view({ open: new Map([["ctx.rows", 100]]) }));
  assert.equal(first.length, 102);
  assert.deepEqual(
    { ...first.at(-1) },
    { row: "more", id: "ctx.rows more", parent: "ctx.rows", depth: 1, shown: 100, total: 250, isText: false },
  );
  assert.equal(treeRows(rootEntries(value), "ctx", view({ open: new Map([["ctx.rows", 300]]) })).length, 251);
});

test("a number is shown, found and copied as it is written", () => {
  const value = parseJson('{"price": 20.0, "id": 9007199254740993}');
  assert.deepEqual(
    treeRows(rootEntries(value), "ctx", view()).map((row) => row.row === "node" && [row.kind, preview(row.value)]),
    [
      ["number", "20.0"],
      ["number", "9007199254740993"],
    ],
  );
  assert.equal(preview(value), "{price: 20.0, id: 9007199254740993}");
  assert.deepEqual([...searchTree(rootEntries(value), "ctx", "20.0", new Map()).hits], ["ctx.price"]);
  assert.equal(jsonText(value), '{\n  "price": 20.0,\n  "id": 9007199254740993\n}');
});

test("a scalar and an empty map are trees of one row", () => {
  assert.deepEqual(ids(7), ["ctx"]);
  assert.deepEqual(ids({}), ["ctx"]);
});

test("a value of 100,000 levels is opened, searched and written without recursion", () => {
  let value: unknown = "bottom";
  for (let depth = 0; depth < 100_000; depth += 1) value = [value];
  assert.equal(ids(value, { open: new Map([["ctx[0]", 100]]) }).length, 2);
  assert.equal(searchTree(rootEntries(value), "ctx", "bottom", new Map()).above.size, 99_999);
  assert.ok(jsonText(value).endsWith(`"bottom"${"]".repeat(100_000)}`));
});

test("a search keeps what it found and what is above, and opens that", () => {
  const value = { a: { name: "Ada", age: 7 }, b: { name: "Ben" }, ada: [1, 2] };
  const found = searchTree(rootEntries(value), "ctx", "ada", new Map());
  assert.deepEqual(ids(value, { found }), ["ctx.a", "ctx.a.name", "ctx.ada"]);
  assert.deepEqual(ids(value, { found, open: new Map([["ctx.ada", 100]]) }), [
    "ctx.a",
    "ctx.a.name",
    "ctx.ada",
    "ctx.ada[0]",
    "ctx.ada[1]",
  ]);
});

test("a reference is known by its shape, and its content is loaded in pages", () => {
  assert.equal(kindOf(REFERENCE), "reference");
  assert.equal(kindOf({ $ref: REFERENCE }), "reference");
  assert.equal(referenceOf({ ...REFERENCE, more: 1 }), null);
  const contents = new Map([
    ["ctx.rows", { kind: "list" as const, total: 300, entries: [[0, { id: 1 }]] as [number, unknown][], next: 1 }],
  ]);
  const rows = treeRows(
    rootEntries({ rows: REFERENCE }),
    "ctx",
    view({ open: new Map([["ctx.rows", 100]]), contents }),
  );
  assert.deepEqual(
    rows.map((row) => row.id),
    ["ctx.rows", "ctx.rows[0]", "ctx.rows more"],
  );
});

test("a list of maps can be a table", () => {
  const rows = [{ id: 1 }, { id: 2, name: "two" }];
  const shown = treeRows(
    rootEntries({ rows }),
    "ctx",
    view({ open: new Map([["ctx.rows", 100]]), tables: new Set(["ctx.rows"]) }),
  );
  assert.deepEqual(
    shown.map((row) => row.row),
    ["node", "table"],
  );
  assert.deepEqual(columnsOf(rows), ["id", "name"]);
});

test("previews are short and do not look deep", () => {
  assert.equal(preview({ a: [1], b: "x\ny", c: null }), '{a: [...], b: "x\\ny", c: null}');
  assert.equal(
    preview(
      Array.from({ length: 50 }, (_, n) => n),
      10,
    ),
    "[0, 1, 2, 3]",
  );
  assert.ok(preview("x".repeat(1_000_000)).length < 100);
});
