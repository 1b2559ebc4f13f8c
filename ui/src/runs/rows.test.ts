import assert from "node:assert/strict";
import { test } from "node:test";
import type { ExecutionSummary } from "../api/types.gen.ts";
import { changedInPlace, missing, newRuns, range } from "./rows.ts";

const run = (execution_id: string, status = "running") => ({ execution_id, status }) as ExecutionSummary;
const ids = (rows: ExecutionSummary[]) => rows.map((row) => row.execution_id).join("");

test("changes keep every row at its place", () => {
  const rows = changedInPlace([run("c"), run("b"), run("a")], [run("d"), run("b", "failed")]);
  assert.equal(ids(rows), "cba");
  assert.equal(rows[1]?.status, "failed");
});

test("runs before the first known one are new", () => {
  assert.equal(newRuns([run("b"), run("a")], [run("d"), run("c"), run("b")]), 2);
  assert.equal(newRuns([run("b")], [run("b")]), 0);
  assert.equal(newRuns([], [run("b")]), 1);
});

test("active rows that an answer lacks are asked for", () => {
  assert.equal(ids(missing([run("c"), run("b", "failed"), run("a")], [run("c")])), "a");
});

test("a range goes both ways", () => {
  const rows = [run("d"), run("c"), run("b"), run("a")];
  assert.deepEqual(range(rows, "b", "d"), ["d", "c", "b"]);
  assert.deepEqual(range(rows, "gone", "c"), ["c"]);
});
