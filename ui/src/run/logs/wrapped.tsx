import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Button } from "../../parts/button.tsx";
import type { PagedList } from "../../parts/paged.ts";
import type { LogLine } from "./lines.ts";
import { LineCells } from "./row.tsx";

interface WrappedProps {
  list: PagedList<LogLine>;
  active: number;
  found: string;
  rowClass: (line: LogLine) => string;
  follow: boolean;
  onFollow: (follow: boolean) => void;
  onLong: (line: LogLine) => void;
}

const LINES = 300; // in the page at once: wrapped lines have no common height, so they are not virtual

/** Lines that are wrapped: a part of the list, moved with buttons at its ends. */
export function WrappedLines({ list, active, found, rowClass, follow, onFollow, onLong }: WrappedProps) {
  const box = useRef<HTMLDivElement>(null);
  const items = list.items.value;
  const [start, setStart] = useState<number | null>(null);
  const around = follow || active < 0 ? items.length - LINES : active - LINES / 2;
  const first = Math.max(0, Math.min(start ?? around, items.length - 1));
  const shown = items.slice(first, first + LINES);
  useLayoutEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [follow, items.length]);
  useLayoutEffect(() => {
    setStart(null);
    box.current?.querySelector(".log-row.active")?.scrollIntoView({ block: "nearest" });
  }, [active]);
  const earlier = () => {
    onFollow(false);
    setStart(Math.max(0, first - LINES / 2));
    if (first < LINES) void list.read("earlier");
  };
  const later = () => {
    setStart(first + LINES / 2);
    if (list.laterFrom.peek() !== null) void list.read("later");
  };
  const hasLater = first + LINES < items.length || list.laterFrom.value !== null;
  return (
    <div
      ref={box}
      class="log-wrapped"
      role="grid"
      aria-label="Output"
      tabIndex={0}
      onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) =>
        onFollow(!hasLater && scrollTop + clientHeight >= scrollHeight - 20)
      }
    >
      {(first > 0 || list.earlierFrom.value !== null) && <Button onClick={earlier}>Earlier lines</Button>}
      {shown.map((line, place) => (
        <div
          key={line.number}
          role="row"
          data-line={line.number}
          class={`${rowClass(line)}${first + place === active ? " active" : ""}`}
        >
          <LineCells line={line} found={found} onLong={onLong} />
        </div>
      ))}
      {hasLater && <Button onClick={later}>Later lines</Button>}
    </div>
  );
}
