import assert from "node:assert/strict";
import { test } from "node:test";
import { parseJson } from "./json.ts";

test("whole numbers of any size are read and written with all their digits", () => {
  const text = '{"a":[9007199254740993,-123456789012345678901234567890,1],"b":1.5,"c":"9007199254740993","d":1e+300}';
  assert.equal(JSON.stringify(parseJson(text)), text);
  assert.deepEqual(parseJson('{"a":9007199254740993,"b":12}'), { a: 9007199254740993n, b: 12 });
});

test("a value that is too deep for exact numbers is read with rounded ones", () => {
  const depth = 100_000;
  let value = parseJson(`${"[".repeat(depth)}9007199254740993${"]".repeat(depth)}`);
  while (Array.isArray(value)) value = value[0];
  assert.equal(value, 9007199254740992);
});

test("text that is not JSON fails as with JSON.parse", () => {
  assert.throws(() => parseJson("[9007199254740993"), SyntaxError);
});
