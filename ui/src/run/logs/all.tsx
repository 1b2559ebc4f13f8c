import { useSignal } from "@preact/signals";
import { useCallback, useEffect, useMemo, useRef } from "preact/hooks";
import { get, Problem } from "../../api/client.ts";
import type { LogPage } from "../../api/types.gen.ts";
import { parameter, setQuery } from "../../location.ts";
import { Button } from "../../parts/button.tsx";
import { List } from "../../parts/list.tsx";
import { END } from "../../parts/paged.ts";
import { Loading, ProblemBox } from "../../parts/states.tsx";
import { Windows } from "../../parts/windows.ts";
import { counted } from "../../text/number.ts";
import { ChildOutput } from "./children.tsx";
import { type LineListProps, NoLines } from "./line-list.tsx";
import { type LogLine, lineRange, logLine } from "./lines.ts";
import { LINE_HEIGHT, LineCells } from "./row.tsx";

/** Every line of the run: the list is as long as the log, and lines are loaded where they come into view. */
export function AllLines({ model, filter, found, rowClass, isChosen, onLong }: LineListProps) {
  const path = model.path("logs");
  const windows = useMemo(() => lineWindows(path), [path]);
  useEffect(() => () => windows.stop(), [windows]);
  const total = useSignal<number | null>(null);
  const problem = useSignal<Problem | undefined>(undefined);
  const cursor = useSignal(-1);
  const line = lineRange(parameter("line"))?.[0] ?? null;
  const atEnd = useSignal(line === null);
  const [tail, isBusy] = [useRef(0), useRef(false)]; // the last line that was counted
  const ask = (place: { before: number } | { after: number }) =>
    get<LogPage>(path, { query: { ...place, count: true, limit: 1 } });
  /** Counts the lines, and finds the row of one. */
  const measure = async (number: number | null) => {
    if (number === null && isBusy.current) return;
    isBusy.current = true;
    try {
      const { items, total: lines = 0 } = await ask({ before: END });
      if (number !== null) {
        cursor.value = (await ask({ after: number - 1 })).row ?? -1;
        atEnd.value = false; // lines that are added meanwhile must not scroll it away
      }
      tail.current = items[0]?.number ?? 0;
      total.value = lines;
      problem.value = undefined;
    } catch (error) {
      problem.value = Problem.of(error);
    }
    isBusy.current = false;
  };
  useEffect(() => {
    if (total.peek() === null || (line !== null && windows.row(cursor.peek())?.number !== line)) void measure(line);
  }, [line, windows]);
  const lastLine = model.frame.value?.last_log_line ?? 0;
  const hasNew = total.value !== null && lastLine > tail.current;
  useEffect(() => {
    if (atEnd.value && hasNew) void measure(null);
  }, [atEnd.value, hasNew, lastLine, total.value]);
  const want = useCallback((first: number, last: number) => windows.want(first, last), [windows]);
  const failure = windows.problem.value ?? problem.value;
  if (failure) return <ProblemBox problem={failure} onRetry={() => void measure(line).then(() => windows.refresh())} />;
  if (total.value === null) return <Loading />;
  return (
    <>
      {total.value ? (
        <List
          label="Output"
          total={total.value}
          rowHeight={LINE_HEIGHT}
          active={cursor.value}
          rowClass={(row) => rowClass(windows.row(row))}
          rowLine={(row) => windows.row(row)?.number}
          onActive={(row) => {
            cursor.value = row;
          }}
          onOpen={(row) => {
            const chosen = windows.row(row);
            if (chosen && !isChosen()) setQuery({ line: chosen.number }, { replace: true });
          }}
          onWindow={want}
          follow={atEnd.value}
          onFollow={(isAtEnd) => {
            atEnd.value = isAtEnd;
          }}
        >
          {(row) => <Cells line={windows.row(row)} found={found} onLong={onLong} />}
        </List>
      ) : (
        <div class="paged-nothing">
          <NoLines filter={filter} />
        </div>
      )}
      <div class="paged-note" role="status">
        <span>{counted(total.value, "line")}</span>
        <ChildOutput model={model} />
        {hasNew && !atEnd.value && (
          <Button
            kind="primary"
            onClick={() => {
              atEnd.value = true;
            }}
          >
            New lines
          </Button>
        )}
      </div>
    </>
  );
}

function Cells({ line, ...rest }: { line: LogLine | undefined; found: string; onLong: (line: LogLine) => void }) {
  return line ? <LineCells line={line} {...rest} /> : <span role="gridcell" />;
}

function lineWindows(path: string): Windows<LogLine> {
  return new Windows<LogLine>(async (row, limit, signal) => {
    const lines: LogLine[] = [];
    let query: Record<string, number> | null = { row };
    while (query && lines.length < limit) {
      const page: LogPage = await get<LogPage>(path, { query: { ...query, limit: limit - lines.length }, signal });
      lines.push(...page.items.map(logLine));
      query = page.next === null ? null : { after: page.next };
    }
    return lines;
  });
}
