import assert from "node:assert/strict";
import { test } from "node:test";
import type { Schedule } from "../api/types.gen.ts";
import { draftOf, faultsOf, requestOf } from "./draft.ts";

const isZone = (name: string) => name === "UTC";
const sound = { ...draftOf(), name: "nightly", path: "shop/orders", cron: "0 2 * * *" };

test("a draft without faults becomes a request", () => {
  assert.deepEqual(faultsOf(sound, isZone), {});
  assert.deepEqual(faultsOf({ ...sound, cron: "@daily" }, isZone), {});
  assert.deepEqual(requestOf({ ...sound, payload: '{"day": 1}' }), {
    path: "shop/orders",
    cron: "0 2 * * *",
    timezone: "UTC",
    overlap: "skip",
    missed: "once",
    payload: { day: 1 },
    version: null,
    ctx: {},
  });
  assert.equal(requestOf({ ...sound, kind: "every", every: "30" }).every, 30);
  assert.equal(requestOf({ ...sound, kind: "every", every: "6h" }).every, "6h");
});

test("every fault is named", () => {
  const wrong = { ...sound, name: "", path: "", cron: "often", timezone: "Mars", version: "new", payload: "[1]" };
  assert.deepEqual(Object.keys(faultsOf(wrong, isZone)).sort(), [
    "cron",
    "name",
    "path",
    "payload",
    "timezone",
    "version",
  ]);
});

test("a stored schedule is edited as it is", () => {
  const stored = {
    name: "n",
    path: "p",
    version: 3,
    every: 60,
    cron: null,
    at: null,
    timezone: "UTC",
    overlap: "skip",
    missed: "all",
    payload: { a: 1 },
    ctx: { region: "eu" },
  } as unknown as Schedule;
  assert.deepEqual(requestOf(draftOf(stored)), {
    path: "p",
    version: 3,
    every: 60,
    timezone: "UTC",
    overlap: "skip",
    missed: "all",
    payload: { a: 1 },
    ctx: { region: "eu" },
  });
});
