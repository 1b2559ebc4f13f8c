import assert from "node:assert/strict";
import { test } from "node:test";
import { treeRows } from "./paths.ts";

const ITEMS = ["ops", "shop/images", "shop/eu/tax", "shop/orders"].map((path) => ({ path }));

test("playbooks stand in the folders of their paths, before the folders beside them", () => {
  const rows = treeRows(ITEMS, new Set()).map(({ name, depth, count }) => `${"-".repeat(depth)}${name}:${count}`);
  assert.deepEqual(rows, ["ops:0", "shop:3", "-images:0", "-orders:0", "-eu:1", "--tax:0"]);
});

test("a closed folder shows only itself", () => {
  assert.deepEqual(
    treeRows(ITEMS, new Set(["shop"])).map(({ path }) => path),
    ["ops", "shop"],
  );
});
