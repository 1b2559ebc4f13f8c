import assert from "node:assert/strict";
import { test } from "node:test";

// The table is read without a browser: the settings it imports need these two.
Object.assign(globalThis, { window: { localStorage: undefined }, document: { documentElement: { dataset: {} } } });
const { actionOf, KEYS, keyName } = await import("./keys.ts");

const press = (key: string, ctrlKey = false) => keyName({ key, ctrlKey, metaKey: false });

test("no scope has a key with two actions", () => {
  const seen = new Set<string>();
  for (const [scope, keys] of KEYS)
    for (const spelling of keys.split(" or ")) {
      assert.ok(!seen.has(`${scope} ${spelling}`), `${spelling} has two actions in ${scope}`);
      seen.add(`${scope} ${spelling}`);
    }
});

test("keys are found by their name, pairs by the key before", () => {
  assert.equal(actionOf("global", press("k", true), ""), "palette");
  assert.equal(actionOf("global", press("r"), "g"), "go-runs");
  assert.equal(actionOf("global", press("r"), ""), null);
  assert.equal(actionOf("slider", press(" "), ""), "play");
  assert.equal(actionOf("run", press("J"), ""), "next-run");
  assert.equal(actionOf("lists", press("ArrowDown"), ""), "next-row");
  const withAlt = keyName({ key: "\u03a9", code: "KeyZ", altKey: true, ctrlKey: false, metaKey: false });
  assert.equal(actionOf("run", withAlt, ""), "wrap");
});
