import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { test } from "node:test";

test("the page has no characters that its fonts lack", () => {
  const files = globSync("**/*.{ts,tsx,css}", { cwd: `${import.meta.dirname}/..` });
  assert.ok(files.length > 100);
  for (const file of files.filter((name) => !name.endsWith(".test.ts"))) {
    const text = readFileSync(`${import.meta.dirname}/../${file}`, "utf8");
    assert.deepEqual(text.match(/[^\p{ASCII}\u{a0}-\u{ff}]/gu) ?? [], [], file); // the Latin subset
  }
});
