/** Any value on one line, cut if it is long. Pure. */

import { cut, oneLine } from "./printable.ts";

const MOST = 2000;

export function jsonLine(value: unknown): string {
  const text = JSON.stringify(value) ?? "not set";
  const shown = cut(text, MOST);
  return oneLine(shown) + (shown.length < text.length ? `... (${text.length} characters)` : "");
}
