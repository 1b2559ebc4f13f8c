import assert from "node:assert/strict";
import { test } from "node:test";
import type { Outline, State } from "../../api/types.gen.ts";
import { above, comparisons, dataRoots, isExpression, startOfRun } from "./roots.ts";

const state = {
  ctx: { vars: { a: 1 } },
  workload: {},
  signals: {},
  timers: [{ name: "step ask", due: "x" }],
} as unknown as State;

test("empty parts are left out except workload and ctx", () => {
  const names = dataRoots(state, { b: 2 }).map(([name]) => name);
  assert.deepEqual(names, ["workload", "ctx", "vars", "args", "timers"]);
});

test("only what templates can name is an expression", () => {
  assert.ok(isExpression("steps.fetch.result"));
  assert.ok(!isExpression("signals.verdict"));
  assert.ok(!isExpression("result"));
});

test("what is above an expression is found, also around quotes", () => {
  assert.deepEqual(above("ctx.rows[0].id"), ["ctx", "ctx.rows", "ctx.rows[0]"]);
  assert.deepEqual(above('ctx["a.b\\"[c"].d'), ["ctx", 'ctx["a.b\\"[c"]']);
});

test("ctx is compared with events before the view", () => {
  assert.deepEqual(
    comparisons(9, "fetch#1", 4, "7").map(({ name, at }) => [name, at]),
    [
      ["previous", 8],
      ["start", 1],
      ["run", 4],
      ["7", 7],
    ],
  );
  assert.deepEqual(comparisons(1, "", 0, ""), []);
});

test("the start of a step run is found in the outline", () => {
  const runs = { step: [0, 1, 1], n: [1, 1, 2], scheduled_seq: [3, 9, 12] } as unknown as Outline["runs"];
  assert.equal(startOfRun({ steps: ["list", "fetch"], runs }, "fetch#2"), 12);
  assert.equal(startOfRun({ steps: ["list", "fetch"], runs }, "other#1"), 0);
  assert.equal(startOfRun({ steps: [], runs: null }, "fetch#1"), 0);
});
