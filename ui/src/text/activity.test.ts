import assert from "node:assert/strict";
import { test } from "node:test";
import { activityText } from "./activity.ts";

const NOW = Date.parse("2026-11-17T12:22:00Z");
const words = (activity: string, ...since: string[]) =>
  activityText({ activity, waits: since.map((time) => ({ since: time })) }, NOW);

test("a wait says for how long", () => {
  assert.equal(words("waiting for signal verdict since 2026-11-17T12:00:00Z"), "waiting for signal verdict, 22 min");
  assert.equal(
    words("waiting for x since 2026-11-17T12:00:00Z, and for 1 more"),
    "waiting for x, 22 min, and for 1 more",
  );
  assert.equal(
    words("no worker is connected in pool 'gpu', waiting since 2026-11-17T12:00:00Z"),
    "no worker is connected in pool 'gpu', waiting for 22 min",
  );
  assert.equal(words("fetch: 3 of 7"), "fetch: 3 of 7");
});

test("a wait is as old as it is by its exact time", () => {
  assert.equal(
    words("waiting for x since 2026-11-17T12:21:30Z", "2026-11-17T12:20:00.100Z", "2026-11-17T12:21:30.900Z"),
    "waiting for x, 29 s",
  );
});
