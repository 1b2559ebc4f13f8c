/** Lines of output: how they are loaded, cut, selected and copied. */

import { get } from "../../api/client.ts";
import type { LogPage, LogLine as StoredLine } from "../../api/types.gen.ts";
import { type Page, PagedList } from "../../parts/paged.ts";
import { withoutCodes } from "../../text/ansi.ts";
import { cut } from "../../text/printable.ts";

export interface LogLine {
  number: number;
  task: string;
  timestamp: string;
  stream: string;
  text: string; // cut
  length: number; // of the whole line
}

export interface LogFilter {
  run: string;
  item: number | null;
  task: string;
  stream: string;
  q: string;
}

const LINE_CHARACTERS = 4_000; // maximum characters of a line in memory: a line can have megabytes
const PAGE_LINES = 200;
const COPIED_LINES = 1_000; // per request

export function logLine({ line, ...rest }: StoredLine): LogLine {
  return { ...rest, text: cut(line, LINE_CHARACTERS), length: line.length };
}

export function logList(path: string, filter: LogFilter): PagedList<LogLine> {
  return new PagedList<LogLine>(
    async (place, signal): Promise<Page<LogLine>> => {
      const page = await get<LogPage>(path, { query: { ...filter, ...place, limit: PAGE_LINES }, signal });
      return { ...page, items: page.items.map(logLine) };
    },
    (line) => line.number,
  );
}

/** The whole of a line that was cut. */
export async function wholeLine(path: string, number: number): Promise<string> {
  const page = await get<LogPage>(path, { query: { after: number - 1, limit: 1 } });
  return page.items[0]?.line ?? "";
}

export type LineRange = [first: number, last: number];

/** `120` or `120-180`, as the URL names lines. */
export function lineRange(text: string): LineRange | null {
  const [, first, last] = /^(\d+)(?:-(\d+))?$/.exec(text) ?? [];
  if (!first) return null;
  const ends = [Number(first), Number(last ?? first)].sort((a, b) => a - b);
  return ends as LineRange;
}

export function rangeText([first, last]: LineRange): string {
  const [low, high] = first <= last ? [first, last] : [last, first];
  return low === high ? String(low) : `${low}-${high}`;
}

/** The text of all lines of a range that match the filter, also of those that are not shown; and how many they are. */
export async function textOfLines(path: string, filter: LogFilter, range: LineRange): Promise<[string, number]> {
  const lines: string[] = [];
  let after: number | null = Math.max(0, range[0] - 1);
  while (after !== null && after < range[1]) {
    const page: LogPage = await get<LogPage>(path, { query: { ...filter, after, limit: COPIED_LINES } });
    for (const line of page.items) if (line.number <= range[1]) lines.push(withoutCodes(line.line));
    after = page.next;
  }
  return [lines.join("\n"), lines.length];
}
