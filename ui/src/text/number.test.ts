import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, count, counted, shortId } from "./number.ts";

test("counts have separators and unknown is a dash", () => {
  assert.equal(count(48_369), "48,369");
  assert.equal(count(null), "-");
  assert.equal(counted(1, "run"), "1 run");
  assert.equal(counted(2_000, "run"), "2,000 runs");
  assert.equal(bytes(999), "999 B");
  assert.equal(bytes(1_500), "1.5 kB");
});

test("ids are shortened in the middle", () => {
  assert.equal(shortId("01a1f0c2e5a24b1f9b51"), "01a1..9b51");
  assert.equal(shortId("short"), "short");
});
