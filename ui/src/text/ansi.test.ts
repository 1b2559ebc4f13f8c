import assert from "node:assert/strict";
import { test } from "node:test";
import { ansiSpans, withoutCodes } from "./ansi.ts";

const shape = (line: string) =>
  ansiSpans(line).map(({ text, color, background, bold }) =>
    [text, color, background, bold ? "bold" : null].filter(Boolean).join(" "),
  );

test("colours are mapped to the palette and end with a reset", () => {
  assert.deepEqual(shape("\u001b[32mpriced\u001b[0m 2 lines"), ["priced green", " 2 lines"]);
  assert.deepEqual(shape("\u001b[1;91;44mx\u001b[39my\u001b[m"), ["x red blue bold", "y blue bold"]);
  assert.deepEqual(shape("\u001b[38;5;196ma\u001b[38;2;20;200;30mb\u001b[38;5;240mc"), ["a red", "b green", "c grey"]);
  assert.deepEqual(shape("\u001b[31;7minverse"), ["inverse white red"]);
});

test("other control codes are removed", () => {
  const line = "a\u001b[2Kb\u001b[10;5Hc\u001b]8;;http://x\u0007d\u001b]0;title\u001b\\e\u0007f\u001b(Bg\u0000h";
  assert.equal(withoutCodes(line), "abcdefgh");
  assert.equal(withoutCodes("cut off \u001b[3"), "cut off 3");
  assert.equal(withoutCodes("\u001b]0;never ends"), "");
});

test("a carriage return begins the line again", () => {
  assert.equal(withoutCodes("10 %\r20 %\r100 %\r"), "100 %");
});

test("characters that reorder text are written out", () => {
  assert.equal(withoutCodes("a\u202eb"), "a\\u202eb");
});

test("a line of a megabyte is read at once", () => {
  assert.equal(withoutCodes("\u001b[31mx".repeat(200_000)).length, 200_000);
  assert.equal(withoutCodes("\u001b]".repeat(100_000)).length, 0);
});
