import assert from "node:assert/strict";
import { test } from "node:test";
import { planOf, previewWords } from "./preview.ts";

const preview = {
  source_id: "x",
  source_seq: 9,
  done: ["start"],
  again: [
    { run: "fetch#1", step: "fetch", task: null, items: 4588, failed: false },
    { run: "count#1", step: "count", task: "sum", items: null, failed: true },
  ],
  warnings: [],
};

test("a dry run says what is kept and what runs again", () => {
  assert.deepEqual(previewWords(preview), {
    kept: "start",
    repeated: "fetch#1 (4,588 items left), count#1 (from task sum)",
  });
  assert.equal(previewWords({ ...preview, again: [] }).repeated, "nothing");
});

test("the plan has a word for each step that ran or runs next", () => {
  assert.deepEqual(
    [...planOf(preview, ["start", "report"])],
    [
      ["start", "next"],
      ["report", "next"],
      ["fetch", "again"],
      ["count", "again"],
    ],
  );
  assert.equal(planOf(null, []).size, 0);
});
