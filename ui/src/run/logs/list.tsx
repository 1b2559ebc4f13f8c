import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { parameter, setQuery } from "../../location.ts";
import { Button } from "../../parts/button.tsx";
import { copyText } from "../../parts/copy.tsx";
import { END } from "../../parts/paged.ts";
import { PagedRows } from "../../parts/paged-rows.tsx";
import { Empty } from "../../parts/states.tsx";
import { toast, toastProblem } from "../../parts/toast.tsx";
import { counted } from "../../text/number.ts";
import type { RunModel } from "../model.ts";
import { ChildOutput } from "./children.tsx";
import { LineChoice } from "./choice.ts";
import { type LogFilter, type LogLine, lineRange, logList, textOfLines } from "./lines.ts";
import { LongLine } from "./long.tsx";
import { LINE_HEIGHT, LineCells } from "./row.tsx";
import { WrappedLines } from "./wrapped.tsx";

interface LogLinesProps {
  model: RunModel;
  filter: LogFilter;
  isWrapped: boolean;
  found: string;
}

/** The lines that a filter selects, from the end of the log, or around the line of the URL. */
export function LogLines({ model, filter, isWrapped, found }: LogLinesProps) {
  const path = model.path("logs");
  const list = useMemo(() => logList(path, filter), []);
  const choice = useMemo(() => new LineChoice(), []);
  const long = useSignal<LogLine | null>(null);
  const range = lineRange(parameter("line"));
  const atEnd = useSignal(range === null);
  const cursor = useSignal(-1);
  const lastLine = model.frame.value?.last_log_line ?? 0;
  useEffect(() => {
    if (range && range[0] !== range[1]) choice.range.value = range;
    return () => list.stop();
  }, []);
  useEffect(() => {
    if (range && list.items.peek().some(({ number }) => number === range[0])) return;
    void list.start(range ? range[0] : END, END, lastLine);
  }, [range?.[0]]);
  const items = list.items.value;
  useEffect(() => {
    if (range) cursor.value = items.findIndex(({ number }) => number === range[0]);
  }, [range?.[0], items]);
  const hasNew = list.hasStarted.value && list.laterFrom.value === null && lastLine > list.tail;
  useEffect(() => {
    if (atEnd.value && hasNew) void list.readNew();
  }, [atEnd.value, hasNew, lastLine]);
  const onFollow = (isAtEnd: boolean) => {
    atEnd.value = isAtEnd;
  };
  const onLong = (line: LogLine) => {
    long.value = line;
  };
  const rowClass = (line: LogLine) =>
    `log-row${line.stream === "stderr" ? " stderr" : ""}${choice.has(line.number) ? " chosen" : ""}`;
  const chosen = choice.range.value;
  const copy = () => void copyLines(path, filter, chosen);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: rows of the grid inside have the roles
    <div
      class="log-lines"
      onPointerDown={choice.onPointerDown}
      onPointerMove={choice.onPointerMove}
      onPointerUp={choice.onPointerUp}
      onKeyDown={choice.onKeyDown}
      onCopy={(event) => {
        if (!chosen) return;
        event.preventDefault();
        copy();
      }}
    >
      {isWrapped && items.length > 0 ? (
        <WrappedLines
          list={list}
          active={cursor.value}
          found={found}
          rowClass={rowClass}
          follow={atEnd.value}
          onFollow={onFollow}
          onLong={onLong}
        />
      ) : (
        <PagedRows
          list={list}
          label="Output"
          word="line"
          rowHeight={LINE_HEIGHT}
          active={cursor.value}
          rowClass={rowClass}
          rowLine={(line) => line.number}
          empty={<NoLines filter={filter} />}
          note={<ChildOutput model={model} />}
          follow={atEnd.value}
          hasNew={hasNew}
          onFollow={onFollow}
          onActive={(row) => {
            cursor.value = row;
          }}
          onOpen={(row) => {
            const line = items[row];
            if (line && !choice.range.peek()) setQuery({ line: line.number }, { replace: true });
          }}
        >
          {(line) => <LineCells line={line} found={found} onLong={onLong} />}
        </PagedRows>
      )}
      {chosen && (
        <div class="paged-note">
          <span>{chosen[1] === END ? "All lines are selected" : "Several lines are selected"}</span>
          <Button onClick={copy}>Copy lines</Button>
        </div>
      )}
      {long.value && (
        <LongLine
          path={path}
          line={long.value}
          onClose={() => {
            long.value = null;
          }}
        />
      )}
    </div>
  );
}

function NoLines({ filter }: { filter: LogFilter }) {
  const isFiltered = filter.run || filter.stream || filter.q;
  if (!isFiltered) return <Empty text="No task has written any output." />;
  return (
    <Empty text="No line matches.">
      <Button onClick={() => setQuery({ q: null, stream: null, scope: "run" })}>Show all output</Button>
    </Empty>
  );
}

async function copyLines(path: string, filter: LogFilter, range: [number, number] | null): Promise<void> {
  if (!range) return;
  try {
    const [text, lines] = await textOfLines(path, filter, range);
    const done = await copyText(text);
    toast(done ? `Copied ${counted(lines, "line")}.` : "The browser does not allow copying.", {
      tone: done ? "good" : "bad",
    });
  } catch (error) {
    toastProblem("The lines were not copied", error);
  }
}
