import type { ComponentChildren } from "preact";
import { count, counted } from "../text/number.ts";
import { Button } from "./button.tsx";
import { List } from "./list.tsx";
import { END, type PagedList } from "./paged.ts";
import { Loading, ProblemBox } from "./states.tsx";
import "./paged-rows.css";

interface PagedRowsProps<T> {
  list: PagedList<T>;
  label: string;
  word: string; // noun for a row: "event", "line"
  rowHeight: number;
  active: number;
  columns?: ComponentChildren;
  rowClass?: (item: T, row: number) => string;
  rowLine?: (item: T) => number; // `data-line` of the row
  empty: ComponentChildren;
  note?: ComponentChildren; // beside the number of rows
  follow?: boolean; // whether the end stays in view
  hasNew?: boolean;
  children: (item: T, row: number) => ComponentChildren;
  onFollow?: (follow: boolean) => void;
  onActive: (row: number) => void;
  onOpen?: (row: number, event: MouseEvent | KeyboardEvent) => void;
}

const NEAR = 20; // rows from an end of the list at which the next page is read

/** The rows of a paged list, with its progress below. Both ends read on when they come into view. */
export function PagedRows<T>(props: PagedRowsProps<T>) {
  const { list, label, word, rowHeight, active, columns, rowClass, rowLine, empty, note, children, onActive, onOpen } =
    props;
  const items = list.items.value;
  const [earlier, later, busy] = [list.earlierFrom.value, list.laterFrom.value, list.busy.value];
  const problem = list.problem.value;
  if (problem && !items.length)
    return <ProblemBox problem={problem} onRetry={() => void list.read(later === null ? "earlier" : "later")} />;
  const isOver = earlier === null && later === null;
  const readNear = (first: number, last: number) => {
    if (items !== list.items.peek()) return; // rows were added since this render: the next one decides
    if (first < NEAR && items.length && earlier !== null) void list.read("earlier");
    if (last > items.length - NEAR && items.length && later !== null) void list.read("later");
  };
  return (
    <>
      {items.length > 0 ? (
        <List
          label={label}
          total={items.length}
          rowHeight={rowHeight}
          active={active}
          added={list.added.value}
          columns={columns}
          rowClass={(row) => rowClass?.(items[row] as T, row) ?? ""}
          rowLine={(row) => rowLine?.(items[row] as T)}
          rowKey={(row) => row - list.added.value}
          onActive={onActive}
          onWindow={readNear}
          follow={props.follow === true && later === null}
          onFollow={(atEnd) => props.onFollow?.(atEnd && list.laterFrom.peek() === null)}
          onOpen={onOpen}
        >
          {(row) => children(items[row] as T, row)}
        </List>
      ) : (
        <div class="paged-nothing">{isOver && list.hasStarted.value ? empty : busy && <Loading />}</div>
      )}
      <div class="paged-note" role="status">
        {items.length > 0 && (
          <span>
            {counted(items.length, word)}
            {isOver ? "" : " so far"}
          </span>
        )}
        {!busy && later !== null && (
          <span>
            Searched up to {word} {count(later)}. <Button onClick={() => void list.read("later")}>Continue</Button>
          </span>
        )}
        {!busy && later === null && earlier !== null && (
          <span>
            Searched back to {word} {count(earlier)}.{" "}
            <Button onClick={() => void list.read("earlier")}>Continue</Button>
          </span>
        )}
        {busy && <span>{searching(busy, word, busy === "later" ? later : earlier)}</span>}
        {problem && <span class="tone-failed">{problem.message}</span>}
        {note}
        {props.hasNew && !props.follow && (
          <Button
            kind="primary"
            onClick={() => {
              props.onFollow?.(true);
              void list.readNew();
            }}
          >
            New {word}s
          </Button>
        )}
      </div>
    </>
  );
}

function searching(direction: "earlier" | "later", word: string, position: number | null): string {
  if (position === null || position <= 0 || position > END) return "Searching";
  return `Searching, ${direction === "later" ? "up" : "back"} to ${word} ${count(position)}`;
}
