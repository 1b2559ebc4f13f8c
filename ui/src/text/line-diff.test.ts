import assert from "node:assert/strict";
import { test } from "node:test";
import { folded, lineDiff } from "./line-diff.ts";

const words = (text: string) => text.split(" ");
const spelled = (a: string, b: string) =>
  lineDiff(words(a), words(b))
    .map(({ kind, a, b }) => `${kind[0]}${a ?? "-"}/${b ?? "-"}`)
    .join(" ");

test("lines that were replaced stand beside each other", () => {
  assert.equal(spelled("a b c d", "a x c d"), "s1/1 c2/2 s3/3 s4/4");
  assert.equal(spelled("a b c", "a b x y c"), "s1/1 s2/2 a-/3 a-/4 s3/5");
  assert.equal(spelled("a b c", "c"), "r1/- r2/- s3/1");
});

test("equal lines in the middle of changes are found", () => {
  assert.equal(spelled("a b c d e", "x b y d z"), "c1/1 s2/2 c3/3 s4/4 c5/5");
});

test("equal texts have no difference", () => {
  assert.ok(lineDiff(words("a b"), words("a b")).every(({ kind }) => kind === "same"));
});

test("rows far from every difference are folded to their number", () => {
  const a = Array.from({ length: 20 }, (_, line) => String(line));
  const b = a.with(10, "x");
  const shown = folded(lineDiff(a, b), 2);
  assert.equal(shown[0], 8);
  assert.equal(shown.length, 7);
  assert.equal(shown.at(-1), 7);
});
