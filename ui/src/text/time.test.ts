import assert from "node:assert/strict";
import { test } from "node:test";
import { duration, moment, momentTitle, runningDuration, zoneName } from "./time.ts";

const noon = Date.parse("2026-11-17T12:03:41.220Z");

test("durations have at most two units", () => {
  const cases: [number | null, string][] = [
    [412, "412 ms"],
    [0, "0 ms"],
    [38_200, "38.2 s"],
    [59_960, "1 min"],
    [219_000, "3 min 39 s"],
    [3_720_000, "1 h 2 min"],
    [187_200_000, "2 d 4 h"],
    [null, "-"],
  ];
  for (const [ms, text] of cases) assert.equal(duration(ms), text);
  assert.equal(runningDuration(3_900), "3 s");
});

test("a moment of today is a clock time, another one has its day", () => {
  assert.equal(moment(noon, noon, "UTC", true), "12:03:41.220");
  assert.equal(moment(noon, noon + 86_400_000, "UTC"), "17 Nov 12:03");
  assert.equal(moment(noon, noon + 300 * 86_400_000, "UTC"), "17 Nov 2026 12:03");
  assert.equal(moment(noon, noon, "Asia/Tokyo"), "21:03:41");
  assert.equal(moment(null, noon, "UTC"), "-");
});

test("a tooltip has UTC and the age", () => {
  assert.equal(momentTitle(noon, noon + 60_000), "2026-11-17T12:03:41.220Z, 1 min ago");
});

test("a zone has the name that it has at that time", () => {
  assert.equal(zoneName("UTC", noon), "UTC");
  assert.equal(zoneName("Europe/Berlin", noon), "CET");
  assert.equal(zoneName("Europe/Berlin", Date.parse("2026-07-17T12:00:00Z")), "CEST");
});
