import assert from "node:assert/strict";
import { test } from "node:test";
import { outlineOf, randomLog } from "./samples.ts";
import { binOf, elapsedAt, seqAt, timeOf } from "./time.ts";

test("times are exact with one event per bin", () => {
  const outline = outlineOf(randomLog(3, 40, 2), 2);
  for (let seq = 1; seq <= 40; seq += 1) {
    assert.equal(elapsedAt(outline, seq), (seq - 1) * 10);
    assert.equal(timeOf(outline, seq), Date.parse(outline.started) + (seq - 1) * 10);
    assert.equal(seqAt(outline, (seq - 1) * 10), seq);
    assert.equal(seqAt(outline, (seq - 1) * 10 + 9), seq);
  }
});

test("within a bin times are interpolated", () => {
  const outline = outlineOf([], 1);
  outline.seq = 15;
  outline.histogram = { events_per_bin: 10, events: [10, 5], errors: [0, 0], retries: [0, 0], end_ms: [100, 200] };
  assert.equal(elapsedAt(outline, 5), 50);
  assert.equal(elapsedAt(outline, 10), 100);
  assert.equal(elapsedAt(outline, 15), 200);
  assert.equal(binOf(outline.histogram, 11), 1);
  assert.equal(binOf(outline.histogram, 99), 1);
  assert.equal(seqAt(outline, 200), 15);
  assert.equal(seqAt(outline, -1), 1);
});
