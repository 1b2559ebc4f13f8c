/** The difference of two texts by lines. Pure. */

export interface DiffRow {
  kind: "same" | "changed" | "removed" | "added";
  a: number | null; // line number in the first text, from 1
  b: number | null;
}

const MAX_CELLS = 4_000_000; // of the table; longer texts are shown as replaced as a whole

/** Rows of both texts side by side; replaced lines share a row. */
export function lineDiff(a: string[], b: string[]): DiffRow[] {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const rows: DiffRow[] = [];
  for (let line = 1; line <= start; line += 1) rows.push({ kind: "same", a: line, b: line });
  rows.push(...middle(a.slice(start, a.length - end), b.slice(start, b.length - end), start));
  for (let back = end; back > 0; back -= 1) rows.push({ kind: "same", a: a.length - back + 1, b: b.length - back + 1 });
  return rows;
}

function middle(a: string[], b: string[], offset: number): DiffRow[] {
  const rows: DiffRow[] = [];
  let [removed, added]: [number[], number[]] = [[], []];
  const flush = () => {
    for (let place = 0; place < Math.max(removed.length, added.length); place += 1) {
      const [left, right] = [removed[place] ?? null, added[place] ?? null];
      rows.push({ kind: left === null ? "added" : right === null ? "removed" : "changed", a: left, b: right });
    }
    [removed, added] = [[], []];
  };
  for (const [x, y] of script(a, b)) {
    if (x !== null && y !== null) {
      flush();
      rows.push({ kind: "same", a: offset + x + 1, b: offset + y + 1 });
    } else if (x !== null) removed.push(offset + x + 1);
    else if (y !== null) added.push(offset + y + 1);
  }
  flush();
  return rows;
}

/** Pairs of equal lines and lines of one side only, in order, with the longest common subsequence. */
function script(a: string[], b: string[]): [number | null, number | null][] {
  const pairs: [number | null, number | null][] = [];
  const wide = b.length + 1;
  if ((a.length + 1) * wide > MAX_CELLS) {
    for (let x = 0; x < a.length; x += 1) pairs.push([x, null]);
    for (let y = 0; y < b.length; y += 1) pairs.push([null, y]);
    return pairs;
  }
  const common = new Uint32Array((a.length + 1) * wide);
  const at = (x: number, y: number) => common[x * wide + y] ?? 0;
  for (let x = a.length - 1; x >= 0; x -= 1)
    for (let y = b.length - 1; y >= 0; y -= 1)
      common[x * wide + y] = a[x] === b[y] ? at(x + 1, y + 1) + 1 : Math.max(at(x + 1, y), at(x, y + 1));
  let [x, y] = [0, 0];
  while (x < a.length || y < b.length) {
    if (x < a.length && y < b.length && a[x] === b[y]) {
      pairs.push([x, y]);
      x += 1;
      y += 1;
    } else if (y >= b.length || (x < a.length && at(x + 1, y) >= at(x, y + 1))) {
      pairs.push([x, null]);
      x += 1;
    } else {
      pairs.push([null, y]);
      y += 1;
    }
  }
  return pairs;
}

/** The rows to show: those that differ, with `around` rows of context; a number is a count of omitted rows. */
export function folded(rows: DiffRow[], around = 3): (DiffRow | number)[] {
  const near = rows.map(() => false);
  rows.forEach((row, place) => {
    if (row.kind !== "same") near.fill(true, Math.max(0, place - around), place + around + 1);
  });
  const shown: (DiffRow | number)[] = [];
  let hidden = 0;
  rows.forEach((row, place) => {
    if (!near[place]) {
      hidden += 1;
      return;
    }
    if (hidden) shown.push(hidden);
    hidden = 0;
    shown.push(row);
  });
  if (hidden) shown.push(hidden);
  return shown;
}
