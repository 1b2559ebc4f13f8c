import assert from "node:assert/strict";
import { test } from "node:test";

Object.assign(globalThis, { window: { localStorage: undefined }, document: { documentElement: { dataset: {} } } });
const { PagedList } = await import("./paged.ts");
const { PAGE_ROWS, Windows } = await import("./windows.ts");

/** A log of which every tenth event matches; a request scans 200 events and returns at most 10. */
function log(length: number) {
  const requests: string[] = [];
  const load = async ({ after, before }: { after?: number; before?: number }) => {
    requests.push(before === undefined ? `after ${after}` : `before ${before}`);
    const items: number[] = [];
    if (before !== undefined) {
      let seq = Math.min(before - 1, length);
      const last = Math.max(1, seq - 199);
      for (; seq >= last && items.length < 10; seq -= 1) if (seq % 10 === 0) items.unshift(seq);
      return { items, next: null, prev: seq >= 1 ? seq + 1 : null, scanned_to: seq + 1 };
    }
    let seq = (after ?? 0) + 1;
    const last = Math.min(length, seq + 199);
    for (; seq <= last && items.length < 10; seq += 1) if (seq % 10 === 0) items.push(seq);
    return { items, next: seq - 1 < length ? seq - 1 : null, prev: null, scanned_to: seq - 1 };
  };
  return { list: new PagedList<number>(load, (seq) => seq), requests };
}

test("a list that starts at the end reads backwards, and then what is new", async () => {
  const { list } = log(1_000);
  await list.start(1_000, 1_000);
  assert.equal(list.items.value.at(-1), 1_000);
  assert.equal(list.items.value.length, 50);
  assert.equal(list.added.value, 50);
  assert.equal(list.laterFrom.value, null);
  await list.readNew();
  assert.equal(list.items.value.length, 50);
  await list.read("earlier");
  assert.deepEqual([list.items.value.length, list.items.value[0], list.added.value], [100, 10, 100]);
  assert.equal(list.earlierFrom.value === null || list.items.value[0] === 10, true);
});

test("a list that starts in the middle reads in both directions without repeating", async () => {
  const { list } = log(2_000);
  await list.start(1_000, 2_000);
  const items = [...list.items.value];
  assert.deepEqual(
    items,
    items.toSorted((a, b) => a - b),
  );
  assert.equal(new Set(items).size, items.length);
  assert.ok(items.includes(1_000) && items.includes(1_010));
  assert.deepEqual(
    [1_005, 999, 1, 2_000].map((seq) => list.isBeyond(seq)),
    [false, false, true, true],
  );
});

test("a search that finds little stops after a few requests and can be continued", async () => {
  const requests: number[] = [];
  const load = async ({ after = 0 }: { after?: number }) => {
    requests.push(after);
    return {
      items: [],
      next: after + 20_000 < 1_000_000 ? after + 20_000 : null,
      prev: null,
      scanned_to: after + 20_000,
    };
  };
  const list = new PagedList<number>(load, (seq) => seq);
  await list.start(0, 1_000_000);
  assert.equal(list.laterFrom.value, 100_000);
  await list.read("later");
  assert.equal(list.laterFrom.value, 200_000);
  assert.equal(requests.length, 10);
});

test("windows load the pages in view once, and again when they are stale or incomplete", async () => {
  const loads: number[] = [];
  let length = 150;
  const windows = new Windows<number>(async (first, limit) => {
    loads.push(first);
    return Array.from({ length: Math.min(limit, length - first) }, (_, n) => first + n);
  });
  const settle = () => new Promise((resolve) => setTimeout(resolve, 400));
  windows.want(90, 150);
  await settle();
  assert.deepEqual([windows.row(99), windows.row(149), windows.row(150)], [99, 149, undefined]);
  windows.want(95, 140);
  await settle();
  assert.deepEqual(loads, [0, PAGE_ROWS]);
  length = 160;
  windows.want(95, 160);
  await settle();
  assert.equal(windows.row(159), 159);
  windows.put(160, 160);
  windows.put(170, 170);
  assert.deepEqual([windows.row(160), windows.row(170)], [160, undefined]);
  windows.refresh();
  assert.equal(windows.row(99), 99);
  await settle();
  assert.deepEqual(
    loads.slice(3).toSorted((a, b) => a - b),
    [0, PAGE_ROWS],
  );
});
