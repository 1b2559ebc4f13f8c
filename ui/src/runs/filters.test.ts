import assert from "node:assert/strict";
import { test } from "node:test";
import { countsQuery, filtersOf, isFiltered, listQuery, toggled } from "./filters.ts";

const now = Date.parse("2026-11-17T12:03:41Z");

test("filters are read from the URL, unknown values are left out", () => {
  const filters = filtersOf(
    new URLSearchParams("status=failed,running&status=waiting&status=odd&since=24h&waits=moon&children=1&q=x"),
  );
  assert.deepEqual(filters.statuses, ["failed", "running", "waiting"]);
  assert.equal(filters.waits, "");
  assert.equal(filters.children, true);
  assert.equal(isFiltered(filters), true);
  assert.equal(isFiltered(filtersOf(new URLSearchParams("children=1&preview=a"))), false);
});

test("a period becomes a time in whole minutes, children are hidden unless asked for", () => {
  const filters = filtersOf(new URLSearchParams("since=1h"));
  assert.deepEqual(countsQuery(filters, now), { path: "", since: "2026-11-17T11:03:00.000Z", parent: "none" });
  assert.equal(listQuery({ ...filters, children: true }, now).parent, "");
  assert.equal(listQuery({ ...filters, since: "2026-11-01" }, now).since, "2026-11-01");
});

test("a status is added and taken away", () => {
  assert.equal(toggled([], "failed"), "failed");
  assert.equal(toggled(["failed"], "running"), "failed,running");
  assert.equal(toggled(["failed", "running"], "failed"), "running");
});
