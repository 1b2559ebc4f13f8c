import assert from "node:assert/strict";
import { test } from "node:test";
import { axisOf, GAP_PX, pixelOf, rangeIn, roundedEnd, ticksOf, timeAt } from "./axis.ts";

test("without gaps time and pixels are proportional", () => {
  const axis = axisOf(0, 1000, 500, [[0, 1000]], true);
  assert.equal(pixelOf(axis, 250), 125);
  assert.equal(timeAt(axis, 125), 250);
  assert.equal(pixelOf(axis, -100), -50);
  assert.equal(axis.pieces.length, 1);
});

test("a long idle time takes 48 px, and all times keep their order", () => {
  const busy: [number, number][] = [
    [0, 100],
    [90_000, 90_200],
    [90_400, 100_000],
  ];
  const axis = axisOf(0, 100_000, 800, busy, true);
  const gaps = axis.pieces.filter((piece) => piece.isGap);
  assert.equal(gaps.length, 1);
  assert.equal(Math.round(gaps[0]!.right - gaps[0]!.left), GAP_PX);
  assert.equal(Math.round(pixelOf(axis, 100_000)), 800);
  let before = -1;
  for (let time = 0; time <= 100_000; time += 50) {
    const pixel = pixelOf(axis, time);
    assert.ok(pixel >= before, `time ${time}`);
    assert.ok(Math.abs(timeAt(axis, pixel) - time) < 1e-6, `time ${time}`);
    before = pixel;
  }
});

test("a run in which nothing has worked yet is no gap", () => {
  assert.deepEqual(
    axisOf(0, 100_000, 800, [], true).pieces.map(({ isGap, right }) => [isGap, right]),
    [[false, 800]],
  );
});

test("gaps can be expanded, and never take more than half of the width", () => {
  const busy: [number, number][] = [0, 1, 2, 3, 4].map((n) => [n * 1000, n * 1000 + 1]);
  assert.equal(axisOf(0, 5000, 800, busy, false).pieces.length, 1);
  const narrow = axisOf(0, 5000, 200, busy, true);
  assert.equal(narrow.pieces.filter((piece) => piece.isGap).length, 2);
});

test("ticks are round times that do not overlap", () => {
  const axis = axisOf(0, 60_000, 800, [[0, 60_000]], true);
  const ticks = ticksOf(axis, 80);
  assert.deepEqual(
    ticks.map(({ time }) => time),
    [0, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000],
  );
});

test("ticks have as many digits as tell them apart", () => {
  const texts = (from: number, to: number) => ticksOf(axisOf(from, to, 320, [], false), 80).map(({ text }) => text);
  assert.deepEqual(texts(0, 40_000), ["0", "10 s", "20 s", "30 s", "40 s"]);
  assert.deepEqual(texts(4780, 4860), ["4.78 s", "4.80 s", "4.82 s", "4.84 s", "4.86 s"]);
  assert.deepEqual(texts(800, 1600), ["800 ms", "1.0 s", "1.2 s", "1.4 s", "1.6 s"]);
  assert.deepEqual(texts(3_725_000, 3_725_004), [
    "1 h 2 min 5.000 s",
    "1 h 2 min 5.001 s",
    "1 h 2 min 5.002 s",
    "1 h 2 min 5.003 s",
    "1 h 2 min 5.004 s",
  ]);
  assert.deepEqual(texts(60_000, 180_000), ["1 min", "1 min 30 s", "2 min", "2 min 30 s", "3 min"]);
});

test("the end of a run in progress grows in steps", () => {
  assert.equal(roundedEnd(900), 1000);
  assert.equal(roundedEnd(1001), 1250);
  assert.ok(roundedEnd(3_600_000) >= 3_600_000);
});

test("a range of the URL that does not lie in the run is all of the run", () => {
  assert.deepEqual(rangeIn(1000, 100, 400), [100, 400]);
  assert.deepEqual(rangeIn(1000, 100, null), [100, 1000]);
  assert.deepEqual(rangeIn(1000, 100, 9e15), [100, 1000]);
  for (const [from, to] of [
    [9e15, 1],
    [9e15, 9e15 + 1],
    [400, 400],
    [1000, 2000],
  ] as const)
    assert.deepEqual(rangeIn(1000, from, to), [0, 1000]);
});
