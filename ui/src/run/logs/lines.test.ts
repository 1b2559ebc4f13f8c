import assert from "node:assert/strict";
import { test } from "node:test";

Object.assign(globalThis, { window: { localStorage: undefined }, document: { documentElement: { dataset: {} } } });
const { lineRange, logLine, rangeText, textOfLines } = await import("./lines.ts");

test("the URL names a line or a range of lines", () => {
  assert.deepEqual(lineRange("120"), [120, 120]);
  assert.deepEqual(lineRange("180-120"), [120, 180]);
  assert.equal(lineRange("all"), null);
  assert.equal(rangeText([180, 120]), "120-180");
  assert.equal(rangeText([7, 7]), "7");
});

test("a long line is cut, and its length is known", () => {
  const line = logLine({ number: 1, task: "a#1/b#1", timestamp: "", stream: "stdout", line: "x".repeat(1_000_000) });
  assert.equal(line.length, 1_000_000);
  assert.equal(line.text.length, 4_000);
});

test("a range is copied as text from all of its pages", async () => {
  const requests: string[] = [];
  const answer = (address: string) => {
    requests.push(address);
    const after = Number(new URL(address, "http://x").searchParams.get("after"));
    const items = [after + 1, after + 2].map((number) => ({ number, line: `\u001b[31mline ${number}\u001b[0m` }));
    return {
      ok: true,
      status: 200,
      headers: new Headers(),
      text: async () => JSON.stringify({ items, next: after + 2 }),
    };
  };
  Object.assign(globalThis, { fetch: async (address: string) => answer(address) });
  const filter = { run: "", item: null, task: "", stream: "stderr", q: "" };
  const [text, lines] = await textOfLines("/executions/1/logs", filter, [5, 9]);
  assert.equal(text, "line 5\nline 6\nline 7\nline 8\nline 9");
  assert.equal(lines, 5);
  assert.ok(requests.every((address) => address.includes("stream=stderr")));
});
