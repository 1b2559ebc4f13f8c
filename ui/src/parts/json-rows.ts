/** The rows of a tree of values. Pure; a value may be so deep that recursion would overflow. */

import { isMap } from "../text/json.ts";
import { type Entry, entriesOf, isTable, type Kind, kindOf, type Name, referenceOf, sizeOf } from "./json-value.ts";

export const PAGE = 100;

/** The content of a reference as far as it is loaded. */
export interface Content {
  kind: "list" | "map" | "text" | "value" | "binary";
  total: number;
  entries: Entry[];
  next: number | null;
}

export interface TreeView {
  open: ReadonlyMap<string, number>; // how many entries of an open value are shown
  tables: ReadonlySet<string>; // lists that are shown as a table
  contents: ReadonlyMap<string, Content>;
  found: Found | null; // only the matches of the search
}

export interface NodeRow {
  row: "node";
  id: string;
  expression: string; // the template expression that gives the value
  parent: string;
  depth: number;
  name: Name;
  value: unknown;
  kind: Kind;
  size: number;
  canOpen: boolean;
  isOpen: boolean;
  hasTable: boolean;
  place: number; // among its siblings, from 1
  siblings: number;
}
export interface MoreRow {
  row: "more";
  id: string;
  parent: string;
  depth: number;
  shown: number;
  total: number; // entries, or characters of a text
  isText: boolean;
}
interface TableRow {
  row: "table";
  id: string;
  parent: string;
  depth: number;
  items: unknown[];
  hasMore: boolean; // more items can be loaded
}
export type TreeRow = NodeRow | MoreRow | TableRow;

const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** The template expression of an entry: `rows[0].id`, `rows["first name"]`. */
export function expression(parent: string, name: Name): string {
  if (name === null) return parent;
  if (typeof name === "number") return `${parent}[${name}]`;
  if (!IDENTIFIER.test(name)) return `${parent}[${JSON.stringify(name)}]`;
  return parent ? `${parent}.${name}` : name;
}

/** Rows have expressions for ids; the text of a reference has the same one as the reference, so it gets another. */
function rowId(parent: string, name: Name, isRoot: boolean): string {
  return name === null && !isRoot ? `${parent} text` : expression(parent, name);
}

/** The first level of the tree of a value: the entries of a list or map, or the value itself. */
export function rootEntries(value: unknown): Entry[] {
  const kind = kindOf(value);
  return (kind === "map" || kind === "list") && sizeOf(value) ? entriesOf(value) : [[null, value]];
}

interface Level {
  entries: Entry[];
  next: number;
  shown: number;
  total: number;
  parent: string;
  depth: number;
  isFree: boolean; // below a match: everything is shown
  isText: boolean;
}

export function treeRows(roots: Entry[], prefix: string, view: TreeView): TreeRow[] {
  const rows: TreeRow[] = [];
  const levels = [level(roots, roots.length, prefix, 0, view, view.found === null)];
  for (let top = levels.at(-1); top; top = levels.at(-1)) {
    const entry = top.next < top.shown ? top.entries[top.next] : undefined;
    if (!entry) {
      if (top.total > top.shown)
        rows.push({
          row: "more",
          id: `${top.parent} more`,
          parent: top.parent,
          depth: top.depth,
          shown: top.shown,
          total: top.total,
          isText: top.isText,
        });
      levels.pop();
      continue;
    }
    top.next += 1;
    const node = nodeRow(entry, top, view);
    rows.push(node);
    if (node.isOpen) {
      const inside = openRows(node, view, top.isFree || (view.found?.hits.has(node.id) ?? false));
      if ("row" in inside) rows.push(inside);
      else levels.push(inside);
    }
  }
  return rows;
}

function nodeRow([name, value]: Entry, top: Level, view: TreeView): NodeRow {
  const id = rowId(top.parent, name, top.depth === 0);
  const kind = kindOf(value);
  const items =
    kind === "reference" ? contentItems(view.contents.get(id)) : kind === "list" ? (value as unknown[]) : [];
  const canOpen = kind === "reference" ? isReadable(value) : sizeOf(value) > 0;
  const isOpen = canOpen && (view.open.has(id) || (!top.isFree && (view.found?.above.has(id) ?? false)));
  return {
    row: "node",
    id,
    expression: expression(top.parent, name),
    parent: top.parent,
    depth: top.depth,
    name,
    value,
    kind,
    size: kind === "reference" ? 0 : sizeOf(value),
    canOpen,
    isOpen,
    hasTable: isTable(items),
    place: top.next,
    siblings: top.total,
  };
}

/** Secrets stay secret, and bytes are no text. */
function isReadable(value: unknown): boolean {
  const hint = referenceOf(value)?.schema_hint;
  return hint !== "secret" && hint !== "binary";
}

function contentItems(content: Content | undefined): unknown[] {
  return content?.kind === "list" ? content.entries.map(([, value]) => value) : [];
}

function openRows(node: NodeRow, view: TreeView, isFree: boolean): Level | TableRow {
  const content = node.kind === "reference" ? view.contents.get(node.id) : undefined;
  const entries = node.kind === "reference" ? (content?.entries ?? []) : entriesOf(node.value);
  const total = content?.next != null ? content.total : entries.length;
  if (node.hasTable && view.tables.has(node.id)) {
    const items = entries.map(([, value]) => value);
    const hasMore = content?.next != null;
    return { row: "table", id: `${node.id} table`, parent: node.id, depth: node.depth + 1, items, hasMore };
  }
  return { ...level(entries, total, node.id, node.depth + 1, view, isFree), isText: content?.kind === "text" };
}

function level(all: Entry[], size: number, parent: string, depth: number, view: TreeView, isFree: boolean): Level {
  const { found } = view;
  const isShown = ([name]: Entry) => {
    const id = rowId(parent, name, depth === 0);
    return found?.hits.has(id) || found?.above.has(id);
  };
  const entries = isFree || !found ? all : all.filter(isShown);
  const total = isFree || !found ? size : entries.length;
  const shown = Math.min(entries.length, Math.max(PAGE, view.open.get(parent) ?? PAGE));
  return { entries, next: 0, shown, total, parent, depth, isFree, isText: false };
}

/** The matches of a search, and the values around them. */
interface Found {
  hits: ReadonlySet<string>;
  above: ReadonlySet<string>;
  isComplete: boolean;
}

const MAX_HITS = 500;
const MAX_VALUES = 200_000;

interface Visited {
  id: string;
  value: unknown;
  above: Visited | null;
}

/** Searches keys and values, depth first, up to a maximum number of matches. */
export function searchTree(
  roots: Entry[],
  prefix: string,
  text: string,
  contents: ReadonlyMap<string, Content>,
): Found {
  const [hits, above] = [new Set<string>(), new Set<string>()];
  const wanted = text.toLowerCase();
  const stack: { entries: Entry[]; next: number; node: Visited | null }[] = [{ entries: roots, next: 0, node: null }];
  let seen = 0;
  for (let top = stack.at(-1); top && hits.size < MAX_HITS && seen < MAX_VALUES; top = stack.at(-1)) {
    const entry = top.entries[top.next];
    if (!entry) {
      stack.pop();
      continue;
    }
    top.next += 1;
    seen += 1;
    const [name, value] = entry;
    const node: Visited = { id: rowId(top.node?.id ?? prefix, name, top.node === null), value, above: top.node };
    if (matches(name, value, wanted)) {
      hits.add(node.id);
      for (let up = node.above; up && !above.has(up.id); up = up.above) above.add(up.id);
    }
    const inside = referenceOf(value) ? (contents.get(node.id)?.entries ?? []) : entriesOf(value);
    if (inside.length) stack.push({ entries: inside, next: 0, node });
  }
  return { hits, above, isComplete: stack.length === 0 };
}

function matches(name: Name, value: unknown, wanted: string): boolean {
  if (typeof name === "string" && name.toLowerCase().includes(wanted)) return true;
  if (Array.isArray(value) || isMap(value)) return false;
  return String(value).toLowerCase().includes(wanted);
}

/** A value as indented JSON. The language's own writer recurses, so very deep values are written by hand. */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value, null, 2) ?? "null";
  } catch (error) {
    if (error instanceof RangeError) return deepText(value);
    throw error;
  }
}

function deepText(root: unknown): string {
  const parts: string[] = [];
  const stack: { text: string; value?: unknown }[] = [{ text: "", value: root }];
  for (let top = stack.pop(); top; top = stack.pop()) {
    parts.push(top.text);
    if (!("value" in top)) continue;
    const { value } = top;
    if (!Array.isArray(value) && !isMap(value)) {
      parts.push(JSON.stringify(value) ?? "null");
      continue;
    }
    const isList = Array.isArray(value);
    stack.push({ text: isList ? "]" : "}" });
    const entries = isList ? value.map((item): Entry => [null, item]) : Object.entries(value);
    for (let place = entries.length - 1; place >= 0; place -= 1) {
      const [name, item] = entries[place] as Entry;
      stack.push({ text: `${place ? "," : ""}${isList ? "" : `${JSON.stringify(name)}:`}`, value: item });
    }
    parts.push(isList ? "[" : "{");
  }
  return parts.join("");
}
