import assert from "node:assert/strict";
import { test } from "node:test";
import { jsonLine } from "./json-line.ts";

test("a value is one line without characters that change the order of the text", () => {
  assert.equal(jsonLine({ a: [1, "b"] }), '{"a":[1,"b"]}');
  assert.equal(jsonLine("x\u202ey"), '"x\\u202ey"');
  assert.equal(jsonLine(undefined), "not set");
});

test("a long value is cut and says how long it is", () => {
  assert.match(jsonLine("x".repeat(5000)), /\.\.\. \(5002 characters\)$/);
});
