import assert from "node:assert/strict";
import { test } from "node:test";
import { groupsOf, levelOf, toggledGroup, typesOf } from "./filter.ts";

test("the URL names levels and groups, and what it does not know is ignored", () => {
  assert.equal(levelOf("task"), "task");
  assert.equal(levelOf("everything"), "event");
  assert.deepEqual(groupsOf("loops,nonsense,run"), ["run", "loops"]);
  assert.equal(typesOf("steps,data"), "step.*,ctx.*");
  assert.equal(typesOf(""), "");
});

test("a group is switched on and off", () => {
  assert.equal(toggledGroup("", "steps"), "steps");
  assert.equal(toggledGroup("loops", "steps"), "steps,loops");
  assert.equal(toggledGroup("steps", "steps"), null);
});
