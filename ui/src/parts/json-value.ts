/** Values as a tree shows them: kinds, entries, one-line previews, references. Pure. */

import { isMap } from "../text/json.ts";
import { counted } from "../text/number.ts";
import { cut, oneLine } from "../text/printable.ts";

export type Kind = "map" | "list" | "text" | "number" | "boolean" | "null" | "reference";
export type Name = string | number | null; // null: the value itself
export type Entry = [name: Name, value: unknown];

/** A value that is stored apart, as the API shows it. */
export interface Reference {
  store: string;
  key: string;
  size: number;
  checksum: string;
  schema_hint: string;
  preview: unknown;
}

const REFERENCE_KEYS = ["checksum", "key", "preview", "schema_hint", "size", "store"].join();

/** The reference that a value is, null for any other value. Stored content marks its references with `$ref`. */
export function referenceOf(value: unknown): Reference | null {
  if (!isMap(value)) return null;
  const marked = value.$ref;
  if (isMap(marked) && Object.keys(value).length === 1) return referenceOf(marked);
  if (Object.keys(value).sort().join() !== REFERENCE_KEYS) return null;
  return typeof value.key === "string" && typeof value.size === "number" ? (value as unknown as Reference) : null;
}

export function kindOf(value: unknown): Kind {
  if (value === null || value === undefined) return "null";
  if (Array.isArray(value)) return "list";
  if (isMap(value)) return referenceOf(value) ? "reference" : "map";
  return typeof value === "string" ? "text" : typeof value === "boolean" ? "boolean" : "number";
}

/** The entries of a list or a map; none for other values. */
export function entriesOf(value: unknown): Entry[] {
  if (Array.isArray(value)) return value.map((item, index): Entry => [index, item]);
  return isMap(value) && !referenceOf(value) ? Object.entries(value) : [];
}

export function sizeOf(value: unknown): number {
  if (Array.isArray(value)) return value.length;
  return isMap(value) ? Object.keys(value).length : 0;
}

/** "12 items", "3 keys". */
export function sizeText(kind: Kind, size: number): string {
  return kind === "list" ? counted(size, "item") : counted(size, "key");
}

const PREVIEW = 80;

/** A value in one short line, without looking deeper than its own entries. */
export function preview(value: unknown, most = PREVIEW): string {
  const kind = kindOf(value);
  if (kind === "list" || kind === "map") {
    const [first, last] = kind === "list" ? "[]" : "{}";
    const parts: string[] = [];
    let length = 0;
    for (const [name, item] of entriesOf(value).slice(0, 20)) {
      const text = kind === "list" ? leaf(item) : `${oneLine(cut(String(name), 40))}: ${leaf(item)}`;
      parts.push(text);
      length += text.length + 2;
      if (length > most) break;
    }
    if (parts.length < sizeOf(value)) parts.push("...");
    return first + cut(parts.join(", "), most) + last;
  }
  return leaf(value, most);
}

function leaf(value: unknown, most = 40): string {
  const kind = kindOf(value);
  if (kind === "list") return (value as unknown[]).length ? "[...]" : "[]";
  if (kind === "map") return sizeOf(value) ? "{...}" : "{}";
  if (kind === "reference") return "(stored value)";
  if (kind === "null") return "null";
  if (typeof value !== "string") return String(value);
  return `"${oneLine(cut(value, most))}${value.length > most ? "..." : ""}"`;
}

/** True for a list whose items are maps: it has a table view. */
export function isTable(items: readonly unknown[]): boolean {
  return items.length > 0 && items.slice(0, 50).every((item) => isMap(item) && !referenceOf(item));
}

const MAX_COLUMNS = 20;

/** The columns of such a table: the keys of its first rows, in their order. */
export function columnsOf(items: readonly unknown[]): string[] {
  const names = new Set<string>();
  for (const item of items.slice(0, 50)) if (isMap(item)) for (const name of Object.keys(item)) names.add(name);
  return [...names].slice(0, MAX_COLUMNS);
}
