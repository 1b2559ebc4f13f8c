/** A tree of values by keyboard and mouse: arrows move and open, buttons of the active row copy. */

import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { counted } from "../text/number.ts";
import { Button } from "./button.tsx";
import { keyTarget } from "./json-keys.ts";
import { JsonLine } from "./json-line.tsx";
import { searchTree, treeRows } from "./json-rows.ts";
import type { TreeState } from "./json-state.ts";
import type { Entry } from "./json-value.ts";
import "./json.css";

interface JsonTreeProps {
  roots: Entry[];
  prefix: string;
  label: string;
  search: string;
  state: TreeState;
  isExpression?: (id: string) => boolean; // which values templates can name; all if the prefix is an expression
  onActive?: (id: string) => void;
}

const ROWS = 500;
const SEARCH_MS = 150;

export function JsonTree(props: JsonTreeProps) {
  const { roots, prefix, label, search, state, isExpression = () => prefix !== "", onActive } = props;
  const box = useRef<HTMLDivElement>(null);
  const id = useId();
  const [limit, setLimit] = useState(ROWS);
  const text = useSettled(search, SEARCH_MS);
  const [open, tables, contents] = [state.open.value, state.tables.value, state.contents.value];
  const found = useMemo(
    () => (text ? searchTree(roots, prefix, text, contents) : null),
    [roots, prefix, text, contents],
  );
  const rows = useMemo(
    () => treeRows(roots, prefix, { open, tables, contents, found }),
    [roots, prefix, open, tables, contents, found],
  );
  const shown = rows.slice(0, limit);
  const known = shown.findIndex((row) => row.id === state.active.value);
  const active = known < 0 ? 0 : known;
  const activate = (place: number) => {
    const row = shown[place];
    if (!row) return;
    if (found) state.openAbove(shown, row); // it stays in view when the search ends
    state.active.value = row.id;
    onActive?.(row.id);
  };
  useLayoutEffect(() => {
    if (known >= 0) document.getElementById(`${id}-${known}`)?.scrollIntoView({ block: "nearest" });
  }, [shown[active]?.id, known >= 0, found === null]);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target !== box.current || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = keyTarget(event.key, shown, active);
    if (target === null) return;
    event.preventDefault();
    event.stopPropagation();
    if (target === "act") state.act(shown, active);
    else activate(target);
  };
  return (
    <>
      {found && <p class="json-note">{foundText(text, found.hits.size, found.isComplete)}</p>}
      {shown.length > 0 && (
        <div
          ref={box}
          class={known < 0 ? "json-tree untouched" : "json-tree"}
          role="tree"
          aria-label={label}
          tabIndex={0}
          aria-activedescendant={`${id}-${active}`}
          onKeyDown={onKeyDown}
        >
          {shown.map((row, place) => (
            <JsonLine
              key={row.id}
              id={`${id}-${place}`}
              row={row}
              isActive={place === active}
              isFound={found?.hits.has(row.id) ?? false}
              isExpression={isExpression}
              state={state}
              onClick={() => {
                activate(place);
                state.act(shown, place);
              }}
              onMore={() => state.showMore(shown, row.parent)}
            />
          ))}
        </div>
      )}
      {rows.length > limit && <Button onClick={() => setLimit(limit + ROWS)}>Show more rows</Button>}
    </>
  );
}

function foundText(text: string, hits: number, isComplete: boolean): string {
  if (!hits) return `No key or value contains "${text}".`;
  return `${counted(hits, "match", "matches")}${isComplete ? "" : "; there may be more"}`;
}

/** The value that an input has had for a while. */
function useSettled(value: string, ms: number): string {
  const [settled, settle] = useState(value);
  useEffect(() => {
    const timer = window.setTimeout(() => settle(value), ms);
    return () => window.clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
