/** Two values as rows of their leaves, side by side. Pure. */

import { isMap } from "../text/typed.ts";

export interface ValueRow {
  path: string;
  a: unknown; // undefined: not there
  b: unknown;
  differs: boolean;
}

export const MAX_ROWS = 2000;

/** Maps and lists are opened as long as both sides have them; at most MAX_ROWS rows. */
export function valueRows(path: string, a: unknown, b: unknown, rows: ValueRow[] = []): ValueRow[] {
  if (rows.length >= MAX_ROWS) return rows;
  const keys = sharedKeys(a, b);
  if (keys === null || keys.length === 0) {
    rows.push({ path, a, b, differs: !isEqual(a, b) });
    return rows;
  }
  for (const key of keys) {
    const name = Array.isArray(a) ? `${path}[${key}]` : `${path}.${key}`;
    valueRows(name, inner(a, key), inner(b, key), rows);
  }
  return rows;
}

function sharedKeys(a: unknown, b: unknown): string[] | null {
  const maps = isMap(a) && isMap(b);
  if (!maps && !(Array.isArray(a) && Array.isArray(b))) return null;
  return [...new Set([...Object.keys(a), ...Object.keys(b as object)])];
}

function inner(value: unknown, key: string): unknown {
  return Object.hasOwn(value as object, key) ? (value as Record<string, unknown>)[key] : undefined;
}

export function isEqual(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  const keys = sharedKeys(a, b);
  return keys?.every((key) => isEqual(inner(a, key), inner(b, key))) ?? false;
}
