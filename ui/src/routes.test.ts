import assert from "node:assert/strict";
import { test } from "node:test";
import { href, parsePath, safeNext } from "./routes.ts";

test("every path is parsed into what built it", () => {
  const cases: [Parameters<typeof href>[0], Record<string, string>][] = [
    ["runs", {}],
    ["run", { id: "01a1" }],
    ["fork", { id: "01a1" }],
    ["compare", { a: "1", b: "2" }],
    ["playbook", { path: "shop/orders & more" }],
    ["edit", { path: "a/b/c" }],
    ["start", { path: "shop/orders" }],
    ["schedule", { name: "nightly?" }],
    ["system", {}],
  ];
  for (const [view, params] of cases) assert.deepEqual(parsePath(href(view, params)), { view, params });
});

test("a path that is none of ours has no view", () => {
  for (const path of ["/nothing", "/runs/1/other", "/compare/1"]) assert.equal(parsePath(path), null);
  assert.deepEqual(parsePath("/runs/%E0%A4%A"), { view: "run", params: { id: "%E0%A4%A" } });
});

test("empty parameters are left out of the query", () => {
  assert.equal(href("run", { id: "x" }, { at: 12, tab: null, step: "" }), "/runs/x?at=12");
});

test("next leads to this server only", () => {
  assert.equal(safeNext("/runs/1?at=2"), "/runs/1?at=2");
  for (const next of ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", null])
    assert.equal(safeNext(next), "/runs");
});
