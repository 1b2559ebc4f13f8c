import assert from "node:assert/strict";
import { test } from "node:test";
import { outlineOf, randomLog } from "../outline/samples.ts";
import { bars, glyphs, neighbourMarker, seqOfValue, shareOf, valueOfSeq, valueRange } from "./scale.ts";

const outline = outlineOf(randomLog(5, 100, 2), 2);
outline.markers = [
  { seq: 10, kind: "retry", entity: "a#1" },
  { seq: 12, kind: "failure", entity: "a#1" },
  { seq: 90, kind: "signal", entity: "go" },
];

test("both scales lead from an event to its place and back", () => {
  for (const scale of ["event", "time"] as const)
    for (let seq = 1; seq <= 100; seq += 1)
      assert.equal(seqOfValue(outline, scale, valueOfSeq(outline, scale, seq)), seq);
  assert.deepEqual(valueRange(outline, "event"), { min: 1, max: 100 });
  assert.deepEqual(valueRange(outline, "time"), { min: 0, max: 990 });
  assert.equal(shareOf(outline, "event", 1), 0);
  assert.equal(shareOf(outline, "time", 100), 1);
});

test("bars never are more than there is room for, and those with errors are marked", () => {
  const failed = outline.histogram.errors.reduce((sum, errors) => sum + errors, 0);
  assert.ok(failed > 0);
  for (const scale of ["event", "time"] as const)
    for (const most of [1, 7, 100, 300]) {
      const shown = bars(outline, scale, most);
      assert.equal(shown.length, scale === "event" ? Math.min(most, 100) : most);
      assert.ok(shown.every(({ height, share }) => height >= 0 && height <= 1 && share >= 0 && share <= 1));
      assert.equal(
        shown.reduce((sum, bar) => sum + bar.errors, 0),
        failed,
      );
    }
  assert.equal(bars(outlineOf([], 1), "event", 10).length, 0);
});

test("of markers in one place the most important one is drawn", () => {
  const shown = glyphs(outline, "event", 10).map(({ kind, count }) => [kind, count]);
  assert.deepEqual(shown, [
    ["retry", 1],
    ["failure", 1],
    ["signal", 1],
  ]);
  assert.deepEqual(glyphs(outline, "event", 1), [
    { seq: 12, kind: "failure", entity: "a#1", share: 11 / 99, count: 3 },
  ]);
});

test("markers are found in both directions", () => {
  assert.equal(neighbourMarker(outline, 1, 1), 10);
  assert.equal(neighbourMarker(outline, 10, 1), 12);
  assert.equal(neighbourMarker(outline, 100, -1), 90);
  assert.equal(neighbourMarker(outline, 10, -1), null);
});
