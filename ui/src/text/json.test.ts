import assert from "node:assert/strict";
import { test } from "node:test";
import { leafPairs } from "./diff.ts";
import { ExactNumber, parseJson } from "./json.ts";

test("whole numbers of any size are read and written with all their digits", () => {
  const text = '{"a":[9007199254740993,-123456789012345678901234567890,1],"b":1.5,"c":"9007199254740993","d":1e+300}';
  assert.equal(JSON.stringify(parseJson(text)), text);
  assert.deepEqual(parseJson('{"a":9007199254740993,"b":12}'), { a: new ExactNumber("9007199254740993"), b: 12 });
});

test("a float stays a float, and is a number to calculate with", () => {
  const text = '{"a":[20.0,-0.0,1e5,1.0E+2,2.50,1e300,7],"b":"20.0","c":3.0}';
  assert.equal(JSON.stringify(parseJson(text)), text.replace("2.50", "2.5").replace("1e300", "1e+300"));
  const { c } = parseJson(text) as { c: number };
  assert.deepEqual([String(c), c / 2, c < 4, Math.max(c, 1), c.toFixed(2)], ["3.0", 1.5, true, 3, "3.00"]);
});

test("numbers are compared as they are written", () => {
  const kinds = leafPairs(parseJson("[20.0, 20.0, 20.0, 20.0]"), parseJson('[20.0, 20, 2e1, "20.0"]'));
  assert.deepEqual(
    kinds.map(({ kind }) => kind),
    ["same", "changed", "changed", "changed"],
  );
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
