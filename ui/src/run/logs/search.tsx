import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { get } from "../../api/client.ts";
import type { LogPage } from "../../api/types.gen.ts";
import { setQuery } from "../../location.ts";
import { Button } from "../../parts/button.tsx";
import { END } from "../../parts/paged.ts";
import { toastProblem } from "../../parts/toast.tsx";
import type { LogFilter } from "./lines.ts";

interface SearchProps {
  path: string;
  filter: LogFilter;
  text: string;
  from: number; // the line that the search starts at
  onText: (text: string) => void;
  onClose: () => void;
}

/** Finds the next or previous line with a text among all lines, loaded or not. */
export function LogSearch({ path, filter, text, from, onText, onClose }: SearchProps) {
  const field = useRef<HTMLInputElement>(null);
  const note = useSignal("");
  const running = useRef(new AbortController());
  useLayoutEffect(() => {
    field.current?.focus();
    field.current?.select();
    return () => running.current.abort();
  }, []);
  const find = async (direction: "after" | "before") => {
    running.current.abort();
    running.current = new AbortController();
    const { signal } = running.current;
    const wanted = text.trim();
    if (!wanted) return;
    note.value = "Searching";
    try {
      const query = { ...filter, q: wanted, limit: 1 };
      const start = direction === "after" ? from : from || END;
      const number = await findLine(path, query, direction, start, signal, (at) => {
        note.value = `Searched up to line ${at}`;
      });
      note.value = number === null ? `No ${direction === "after" ? "later" : "earlier"} line matches` : "";
      if (number !== null) setQuery({ line: number }, { replace: true });
    } catch (error) {
      if (signal.aborted) return;
      note.value = "";
      toastProblem("The search failed", error);
    }
  };
  return (
    <div class="panel-bar" role="search" aria-label="Search the log">
      <input
        ref={field}
        class="input log-search"
        type="search"
        aria-label="Search all lines"
        placeholder="Search all lines"
        value={text}
        onInput={(event) => onText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter") void find(event.shiftKey ? "before" : "after");
          if (event.key === "Escape") onClose();
        }}
      />
      <span>
        <Button onClick={() => void find("before")}>Previous</Button>{" "}
        <Button onClick={() => void find("after")}>Next</Button>
      </span>
      <span class="secondary" role="status">
        {note}
      </span>
      <Button kind="quiet" icon="close" label="Close the search" onClick={onClose} />
    </div>
  );
}

type SearchQuery = LogFilter & { limit: number };

/** The next line that matches in a direction, null if there is none. A request reads a part of the log. */
async function findLine(
  path: string,
  query: SearchQuery,
  direction: "after" | "before",
  from: number,
  signal: AbortSignal,
  onProgress: (line: number) => void,
): Promise<number | null> {
  let place: number | null = from;
  while (place !== null) {
    const page: LogPage = await get<LogPage>(path, { query: { ...query, [direction]: place }, signal });
    const line = page.items[0];
    if (line) return line.number;
    place = direction === "after" ? page.next : page.prev;
    if (place !== null) onProgress(place);
  }
  return null;
}
