import assert from "node:assert/strict";
import { test } from "node:test";
import { parseJson } from "./json.ts";
import { formatTyped, parseMap, parseTyped, unknownPaths, valueAt, withValue } from "./typed.ts";

test("a text becomes a value of the field's type, or says what to enter", () => {
  assert.deepEqual(parseTyped("number", " 1.5 "), { value: 1.5 });
  assert.deepEqual(parseTyped("integer", "1.5"), { error: "Enter a whole number." });
  assert.deepEqual(parseTyped("number", ""), { error: "Enter a number." });
  assert.deepEqual(parseTyped("boolean", "true"), { value: true });
  assert.deepEqual(parseTyped("boolean", ""), { error: "Choose yes or no." });
  assert.deepEqual(parseTyped("string", " 12 "), { value: " 12 " });
  assert.deepEqual(parseTyped("array", "[1]"), { value: [1] });
  assert.ok("error" in parseTyped("array", "{}"));
  assert.ok("error" in parseMap("[]"));
  assert.deepEqual(parseMap(" "), { value: {} });
});

test("a number that is typed is sent as such", () => {
  const sent = (type: "any" | "integer" | "number", text: string) => JSON.stringify(parseTyped(type, text));
  for (const type of ["any", "number"] as const) {
    assert.equal(sent(type, "20.0"), '{"value":20.0}');
    assert.equal(sent(type, "9007199254740993"), '{"value":9007199254740993}');
  }
  assert.equal(sent("integer", "+9007199254740993"), '{"value":9007199254740993}');
  assert.equal(sent("integer", "-007"), '{"value":-7}');
  assert.equal(sent("integer", "+007"), '{"value":7}');
  assert.equal(sent("number", "+0020.0"), '{"value":20.0}');
  assert.equal(sent("number", ".5"), '{"value":0.5}');
  assert.equal(sent("number", "-.0"), '{"value":-0.0}');
  assert.equal(sent("number", "5."), '{"value":5.0}');
  assert.equal(sent("number", "3.e2"), '{"value":3.0e2}');
  assert.equal(formatTyped("number", parseJson("20.0")), "20.0");
});

test("a field of any type takes JSON, and text without quotes", () => {
  assert.deepEqual(parseTyped("any", "ada"), { value: "ada" });
  assert.deepEqual(parseTyped("any", "12"), { value: 12 });
  assert.deepEqual(parseTyped("any", '{"a": 1}'), { value: { a: 1 } });
  assert.ok("error" in parseTyped("any", '{"a": '));
});

test("a number that JSON cannot send is refused", () => {
  assert.deepEqual(parseMap('{"a": [-1e400]}'), { error: "This is not JSON: a number is too large" });
  assert.deepEqual(parseTyped("number", "1e400"), { error: "Enter a number." });
  assert.deepEqual(parseTyped("number", "0x10"), { error: "Enter a number." });
  assert.deepEqual(parseTyped("any", "1e400"), { value: "1e400" });
  const digits = "9".repeat(400);
  assert.deepEqual(parseMap(`{"a": ${digits}.0}`), { error: "This is not JSON: a number is too large" });
  for (const type of ["any", "integer", "number"] as const)
    assert.equal(JSON.stringify(parseTyped(type, digits)), `{"value":${digits}}`);
  assert.deepEqual(parseMap('{"a": 1e300, "b": "1e400", "c": "Infinity"}'), {
    value: { a: 1e300, b: "1e400", c: "Infinity" },
  });
});

test("a value is shown as the text that gives it", () => {
  assert.equal(formatTyped("string", "ada"), "ada");
  assert.equal(formatTyped("number", 500), "500");
  assert.equal(formatTyped("array", [1]), "[\n  1\n]");
  assert.equal(formatTyped("any", null), "");
});

test("values are read and written at dotted paths", () => {
  assert.deepEqual(withValue({ order: { id: 1 } }, "order.customer", "ada"), { order: { id: 1, customer: "ada" } });
  assert.equal(valueAt({ order: { id: 1 } }, "order.id"), 1);
  assert.equal(valueAt({ order: 1 }, "order.id"), undefined);
});

test("keys that nothing declares are named with their path", () => {
  const declared = ["limit", "order.id", "order.lines"];
  assert.deepEqual(unknownPaths({ limit: 1, order: { id: 1, custmer: 2, lines: [{ a: 1 }] }, x: { y: 1 } }, declared), [
    "order.custmer",
    "x",
  ]);
});
