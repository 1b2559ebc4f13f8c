import assert from "node:assert/strict";
import { test } from "node:test";
import { cut, oneLine, printable } from "./printable.ts";

test("characters that hide or reorder text are written out", () => {
  assert.equal(printable("a\u202eb\u0000c\u001b[31m"), "a\\u202eb\\u0000c\\u001b[31m");
  assert.equal(printable("two\nlines\tand \u05d0"), "two\nlines\tand \u05d0");
  assert.equal(oneLine("two\nlines\r"), "two\\nlines\\r");
});

test("a cut does not split a pair of surrogates", () => {
  assert.equal(cut("ab\u{1f600}c", 3), "ab");
  assert.equal(cut("ab\u{1f600}c", 4), "ab\u{1f600}");
  assert.equal(cut("abc", 10), "abc");
});
