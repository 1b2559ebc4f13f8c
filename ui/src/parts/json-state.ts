/** The expanded rows of a tree of values, and the contents that were loaded for it. */

import { batch, type Signal, signal } from "@preact/signals";
import { get, Problem } from "../api/client.ts";
import type { ValuePage } from "../api/types.gen.ts";
import { isMap } from "../text/json.ts";
import { type Content, type NodeRow, PAGE, type TreeRow } from "./json-rows.ts";
import { type Entry, referenceOf } from "./json-value.ts";

export class TreeState {
  readonly open: Signal<ReadonlyMap<string, number>> = signal(new Map());
  readonly tables: Signal<ReadonlySet<string>> = signal(new Set());
  /** Values that are shown as JSON text. */
  readonly raws: Signal<ReadonlySet<string>> = signal(new Set());
  readonly contents: Signal<ReadonlyMap<string, Content>> = signal(new Map());
  readonly problems: Signal<ReadonlyMap<string, Problem>> = signal(new Map());
  readonly active = signal("");
  /** Of long texts, how many characters are shown. */
  readonly shownText: Signal<ReadonlyMap<string, number>> = signal(new Map());

  /** Handles a click on a row: expands or collapses a value, or shows more. */
  act(rows: readonly TreeRow[], place: number): void {
    const row = rows[place];
    if (row?.row === "node") this.toggle(row);
    if (row?.row === "more") this.showMore(rows, row.parent);
  }

  /** Opens or closes a value; the content of a reference is loaded when it is first opened. */
  toggle(node: NodeRow, isOpen = !node.isOpen): void {
    if (!node.canOpen) return;
    const open = new Map(this.open.peek());
    if (isOpen) open.set(node.id, open.get(node.id) ?? PAGE);
    else open.delete(node.id);
    this.open.value = open;
    if (isOpen && node.kind === "reference" && !this.contents.peek().has(node.id)) void this.load(node.id, node.value);
  }

  openAbove(rows: readonly TreeRow[], row: TreeRow): void {
    const open = new Map(this.open.peek());
    const byId = new Map(rows.map((other) => [other.id, other]));
    for (let up = byId.get(row.parent); up; up = up.id === up.parent ? undefined : byId.get(up.parent))
      open.set(up.id, open.get(up.id) ?? PAGE);
    this.open.value = open;
  }

  toggleTable(node: NodeRow): void {
    const tables = new Set(this.tables.peek());
    if (!tables.delete(node.id)) tables.add(node.id);
    batch(() => {
      this.tables.value = tables;
      this.toggle(node, true);
    });
  }

  toggleRaw(id: string): void {
    const raws = new Set(this.raws.peek());
    if (!raws.delete(id)) raws.add(id);
    this.raws.value = raws;
  }

  /** Shows the next 100 entries; those of a reference are loaded. */
  showMore(rows: readonly TreeRow[], parent: string): void {
    const shown = (this.open.peek().get(parent) ?? PAGE) + PAGE;
    this.open.value = new Map(this.open.peek()).set(parent, shown);
    const content = this.contents.peek().get(parent);
    const node = rows.find((row) => row.id === parent);
    if (content && content.next !== null && node?.row === "node") void this.load(parent, node.value);
  }

  showText(id: string, characters: number): void {
    this.shownText.value = new Map(this.shownText.peek()).set(id, characters);
  }

  async load(id: string, value: unknown): Promise<void> {
    const reference = referenceOf(value);
    if (!reference) return;
    const before = this.contents.peek().get(id);
    try {
      const path = `/results/${encodeURIComponent(digestOf(reference.key))}/page`;
      const page = await get<ValuePage>(path, { query: { after: before?.next ?? 0, limit: PAGE } });
      this.contents.value = new Map(this.contents.peek()).set(id, joined(before, page));
    } catch (error) {
      this.problems.value = new Map(this.problems.peek()).set(id, Problem.of(error));
    }
  }
}

/** The hash in the key of a reference: keys of object stores have a folder before it. */
export function digestOf(key: string): string {
  return key.slice(key.lastIndexOf("/") + 1);
}

function joined(before: Content | undefined, page: ValuePage): Content {
  const old = before?.entries ?? [];
  const { kind, total, next } = page;
  if (kind === "text") {
    const text = String(old[0]?.[1] ?? "") + page.items.join("");
    return { kind, total, entries: [[null, text]], next };
  }
  const entries = page.items.map((item, place): Entry => {
    if (kind === "map" && isMap(item)) return [String(item.key), item.value];
    return kind === "list" ? [old.length + place, item] : [null, item];
  });
  return { kind, total, entries: [...old, ...entries], next };
}
