import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { parameter, setQuery } from "../../location.ts";
import { Button } from "../../parts/button.tsx";
import { copyText } from "../../parts/copy.tsx";
import { END } from "../../parts/paged.ts";
import { PagedRows } from "../../parts/paged-rows.tsx";
import { toast, toastProblem } from "../../parts/toast.tsx";
import { counted } from "../../text/number.ts";
import type { RunModel } from "../model.ts";
import { AllLines } from "./all.tsx";
import { ChildOutput } from "./children.tsx";
import { LineChoice } from "./choice.ts";
import { isSelective, type LineListProps, NoLines } from "./line-list.tsx";
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

/** The lines of the log, of which several can be selected and copied. */
export function LogLines({ model, filter, isWrapped, found }: LogLinesProps) {
  const path = model.path("logs");
  const choice = useMemo(() => new LineChoice(), []);
  const long = useSignal<LogLine | null>(null);
  useEffect(() => {
    const range = lineRange(parameter("line"));
    if (range && range[0] !== range[1]) choice.range.value = range;
  }, []);
  const chosen = choice.range.value;
  const copy = () => void copyLines(path, filter, chosen);
  const shown: LineListProps = {
    model,
    filter,
    found,
    rowClass: (line) =>
      `log-row${line?.stream === "stderr" ? " stderr" : ""}${line && choice.has(line.number) ? " chosen" : ""}`,
    isChosen: () => choice.range.peek() !== null,
    onLong: (line) => {
      long.value = line;
    },
  };
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
      {isWrapped || isSelective(filter) ? <SomeLines {...shown} isWrapped={isWrapped} /> : <AllLines {...shown} />}
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

/** The lines that a filter selects, or that are wrapped: from the end of the log, or around the line of the URL. */
function SomeLines({
  model,
  filter,
  isWrapped,
  found,
  rowClass,
  isChosen,
  onLong,
}: LineListProps & { isWrapped: boolean }) {
  const list = useMemo(() => logList(model.path("logs"), filter), []);
  const line = lineRange(parameter("line"))?.[0] ?? null;
  const atEnd = useSignal(line === null);
  const cursor = useSignal(-1);
  const lastLine = model.frame.value?.last_log_line ?? 0;
  useEffect(() => () => list.stop(), []);
  useEffect(() => {
    if (line !== null && list.items.peek().some(({ number }) => number === line)) return;
    void list.start(line ?? END, END, lastLine);
  }, [line]);
  const items = list.items.value;
  useEffect(() => {
    if (line !== null) cursor.value = items.findIndex(({ number }) => number === line);
  }, [line, items]);
  const hasNew = list.hasStarted.value && list.laterFrom.value === null && lastLine > list.tail;
  useEffect(() => {
    if (atEnd.value && hasNew) void list.readNew();
  }, [atEnd.value, hasNew, lastLine]);
  const onFollow = (isAtEnd: boolean) => {
    atEnd.value = isAtEnd;
  };
  if (isWrapped && items.length > 0)
    return (
      <WrappedLines
        list={list}
        active={cursor.value}
        found={found}
        rowClass={rowClass}
        follow={atEnd.value}
        onFollow={onFollow}
        onLong={onLong}
      />
    );
  return (
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
        if (line && !isChosen()) setQuery({ line: line.number }, { replace: true });
      }}
    >
      {(line) => <LineCells line={line} found={found} onLong={onLong} />}
    </PagedRows>
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
