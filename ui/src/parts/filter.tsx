import { parameter, setQuery } from "../location.ts";
import { Button } from "./button.tsx";
import { Empty } from "./states.tsx";

/** The text filter of a section: `q` of the URL, the key `/`. */
export function FilterField() {
  return (
    <input
      data-filter
      class="input"
      type="search"
      aria-label="Filter"
      placeholder="Filter"
      value={parameter("q")}
      onInput={(event) => setQuery({ q: event.currentTarget.value }, { replace: true })}
      onKeyDown={(event) => {
        if (event.key === "Escape") event.currentTarget.blur();
      }}
    />
  );
}

/** Rows whose text has every word of the filter. */
export function filtered<T>(rows: T[], text: (row: T) => string): T[] {
  const words = parameter("q").toLowerCase().split(/\s+/).filter(Boolean);
  return words.length ? rows.filter((row) => words.every((word) => text(row).toLowerCase().includes(word))) : rows;
}

export function NoMatch({ what }: { what: string }) {
  return (
    <Empty text={`No ${what} match this filter.`}>
      <Button onClick={() => setQuery({ q: null })}>Clear the filter</Button>
    </Empty>
  );
}
