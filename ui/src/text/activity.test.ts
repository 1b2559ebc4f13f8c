import assert from "node:assert/strict";
import { test } from "node:test";
import { activityText } from "./activity.ts";

test("a wait says for how long", () => {
  const now = Date.parse("2026-11-17T12:22:00Z");
  assert.equal(
    activityText("waiting for signal verdict since 2026-11-17T12:00:00Z", now),
    "waiting for signal verdict, 22 min",
  );
  assert.equal(
    activityText("waiting for x since 2026-11-17T12:00:00Z, and for 1 more", now),
    "waiting for x, 22 min, and for 1 more",
  );
  assert.equal(
    activityText("no worker is connected in pool 'gpu', waiting since 2026-11-17T12:00:00Z", now),
    "no worker is connected in pool 'gpu', waiting for 22 min",
  );
  assert.equal(activityText("fetch: 3 of 7", now), "fetch: 3 of 7");
});
