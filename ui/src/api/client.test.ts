import assert from "node:assert/strict";
import { test } from "node:test";

Object.assign(globalThis, { window: { localStorage: undefined }, document: { documentElement: { dataset: {} } } });
const { post, request } = await import("./client.ts");
const { parseJson } = await import("../text/json.ts");

let sent: RequestInit = {};
Object.assign(globalThis, {
  fetch: async (_: string, init: RequestInit) => {
    sent = init;
    return new Response("null");
  },
});
const type = () => new Headers(sent.headers).get("Content-Type");

test("any body is sent as JSON, and is the same value behind it", async () => {
  const hostile = '"}, {"limit": 9007199254740993, "x": "\\u2028\u2028\\';
  const inner = parseJson('{"__proto__": {"toJSON": 1}, "constructor": [9007199254740993, -0.5, null]}');
  for (const value of [hostile, "", "9007199254740993", [hostile], { [hostile]: { [hostile]: [inner, hostile] } }]) {
    await post("/x", value);
    assert.equal(type(), "application/json");
    assert.deepEqual(parseJson(String(sent.body)), value);
  }
  await post("/x", inner);
  assert.equal(sent.body, '{"__proto__":{"toJSON":1},"constructor":[9007199254740993,-0.5,null]}');
});

test("the text of a playbook is sent as it is, and a request without a body has none", async () => {
  await request("POST", "/x", { yaml: "a: 1\n" });
  assert.deepEqual([type(), sent.body], ["application/yaml", "a: 1\n"]);
  await request("POST", "/x", { yaml: "" });
  assert.deepEqual([type(), sent.body], ["application/yaml", ""]);
  await request("DELETE", "/x");
  assert.deepEqual([type(), sent.body], [null, undefined]);
});
