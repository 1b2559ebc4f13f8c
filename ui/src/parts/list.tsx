import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { rowPixels } from "../look/phone.ts";
import { listWindow, scrollToRow } from "./window.ts";
import "./list.css";

interface ListProps {
  label: string;
  total: number; // rows in all, also those that are not loaded
  rowHeight: number;
  active: number; // the row with the focus, -1 for none
  rowKey?: (row: number) => string | number;
  columns?: ComponentChildren; // a row of column headers
  rowClass?: (row: number) => string;
  rowLine?: (row: number) => number | undefined; // a number that pointer handlers read from the element, as `data-line`
  children: (row: number) => ComponentChildren; // the cells of a row
  onActive: (row: number) => void;
  onOpen?: ((row: number, event: MouseEvent | KeyboardEvent) => void) | undefined;
  onWindow?: (first: number, last: number) => void; // rows came into view: load them
  added?: number; // rows added before the first one since the list began; the visible rows stay in view
  follow?: boolean; // stay at the end while rows are added
  onFollow?: (atEnd: boolean) => void;
}

/** A list of any length with rows of one height: only the rows in view are in the DOM. One tab stop; the arrow keys,
 *  `j`, `k`, Home, End, PgUp and PgDn move the active row. */
export function List(props: ListProps) {
  const {
    label,
    total,
    active,
    columns,
    rowKey,
    rowClass,
    rowLine,
    children,
    onActive,
    onOpen,
    onWindow,
    added = 0,
    follow,
    onFollow,
  } = props;
  const rowHeight = rowPixels(props.rowHeight);
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [scrollBarWidth, setScrollBarWidth] = useState(0); // the column headers end where the rows do
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = () => {
      setView({ top: element.scrollTop, height: element.clientHeight });
      setScrollBarWidth(element.offsetWidth - element.clientWidth);
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const { first, last, offset, height } = listWindow(total, rowHeight, view.top, view.height);
  useEffect(() => onWindow?.(first, last), [first, last, onWindow]);
  const addedBefore = useRef(added);
  useLayoutEffect(() => {
    const element = box.current;
    if (element && added !== addedBefore.current) {
      element.scrollTop += (added - addedBefore.current) * rowHeight;
      setView({ top: element.scrollTop, height: element.clientHeight });
    }
    addedBefore.current = added;
  }, [added, rowHeight]);
  useLayoutEffect(() => {
    const element = box.current;
    if (element && follow) element.scrollTop = element.scrollHeight;
  }, [follow, total]);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || active < 0) return;
    element.scrollTop = scrollToRow(active, total, rowHeight, element.scrollTop, element.clientHeight);
  }, [active, rowHeight, total === 0]);

  const onScroll = (event: { currentTarget: HTMLDivElement }) => {
    const { scrollTop, clientHeight, scrollHeight } = event.currentTarget;
    setView({ top: scrollTop, height: clientHeight });
    onFollow?.(scrollTop + clientHeight >= scrollHeight - rowHeight);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(view.height / rowHeight) - 1);
    const steps: Record<string, number> = {
      ArrowDown: 1,
      j: 1,
      ArrowUp: -1,
      k: -1,
      PageDown: page,
      PageUp: -page,
      Home: -total,
      End: total,
    };
    const step = steps[event.key];
    if (step !== undefined && total) {
      event.preventDefault();
      event.stopPropagation();
      onActive(Math.max(0, Math.min(total - 1, (active < 0 ? -1 : active) + step)));
    } else if (event.key === "Enter" && active >= 0 && event.target === box.current) {
      event.preventDefault();
      onOpen?.(active, event);
    }
  };
  const rows = [];
  for (let row = first; row < last; row += 1) {
    rows.push(
      <div
        key={rowKey?.(row) ?? row}
        id={`${label}-${row}`.replaceAll(" ", "-")}
        role="row"
        aria-rowindex={row + 1 + (columns ? 1 : 0)}
        aria-selected={row === active}
        data-line={rowLine?.(row)}
        class={`list-row ${rowClass?.(row) ?? ""}`}
        style={{ height: `${rowHeight}px` }}
        onClick={(event) => {
          onActive(row);
          if (!(event.target as Element).closest("a, button, input, label")) onOpen?.(row, event);
        }}
      >
        {children(row)}
      </div>,
    );
  }
  return (
    <div class="list">
      {columns && (
        <div class="list-columns" style={{ paddingInlineEnd: `${scrollBarWidth}px` }}>
          {columns}
        </div>
      )}
      <div
        ref={box}
        class="list-scroll"
        role="grid"
        aria-label={label}
        aria-rowcount={total + (columns ? 1 : 0)}
        aria-activedescendant={active >= first && active < last ? `${label}-${active}`.replaceAll(" ", "-") : undefined}
        tabIndex={0}
        onScroll={onScroll}
        onKeyDown={onKeyDown}
      >
        <div class="list-content" style={{ height: `${height}px` }} role="presentation">
          <div class="list-window" style={{ transform: `translateY(${offset}px)` }} role="presentation">
            {rows}
          </div>
        </div>
      </div>
    </div>
  );
}
