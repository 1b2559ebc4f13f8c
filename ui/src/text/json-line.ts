/** Any value on one line, cut if it is long. Pure. */

import { cut, oneLine } from "./printable.ts";

const MAX_CHARACTERS = 2000;

export function jsonLine(value: unknown): string {
  const text = JSON.stringify(value) ?? "not set";
  const shown = cut(text, MAX_CHARACTERS);
  return oneLine(shown) + (shown.length < text.length ? `... (${text.length} characters)` : "");
}
