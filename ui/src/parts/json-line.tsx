import { Icon } from "../look/icons.tsx";
import { count, counted } from "../text/number.ts";
import { cut, oneLine } from "../text/printable.ts";
import { Button } from "./button.tsx";
import { Copy } from "./copy.tsx";
import { JsonContent } from "./json-content.tsx";
import { jsonText, type MoreRow, type NodeRow, PAGE, type TreeRow } from "./json-rows.ts";
import type { TreeState } from "./json-state.ts";
import { JsonTable } from "./json-table.tsx";

interface JsonLineProps {
  id: string;
  row: TreeRow;
  isActive: boolean;
  isFound: boolean;
  isExpression: (id: string) => boolean;
  state: TreeState;
  onClick: () => void;
  onMore: () => void;
}

const STEP = 16;
const MAX_INDENT = 24; // deeper values are not indented further

/** One row of a tree: a value, a table in place of its entries, or a button that shows more of them. */
export function JsonLine({ id, row, isActive, isFound, isExpression, state, onClick, onMore }: JsonLineProps) {
  const isNode = row.row === "node";
  return (
    <div
      id={id}
      role="treeitem"
      class={`json-line${isActive ? " active" : ""}${isFound ? " found" : ""}`}
      style={{ paddingInlineStart: `${4 + STEP * Math.min(row.depth, MAX_INDENT)}px` }}
      aria-level={row.depth + 1}
      aria-selected={isActive}
      aria-expanded={isNode && row.canOpen ? row.isOpen : undefined}
      aria-setsize={isNode ? row.siblings : undefined}
      aria-posinset={isNode ? row.place : undefined}
      onClick={(event) => {
        const isControl = (event.target as Element).closest("a, button, .json-long, .json-table");
        if (!isControl && !window.getSelection()?.toString()) onClick();
      }}
    >
      {isNode && <Node row={row} state={state} />}
      {isNode && isActive && <Tools row={row} state={state} isExpression={isExpression(row.expression)} />}
      {row.row === "more" && <span class="json-more">{moreText(row)}</span>}
      {row.row === "table" && <JsonTable items={row.items} label={row.parent} more={row.hasMore && onMore} />}
    </div>
  );
}

function moreText({ shown, total, isText }: MoreRow): string {
  if (isText) return `Show more of ${counted(total, "character")}`;
  return `Show ${count(Math.min(PAGE, total - shown))} more of ${counted(total, "entry", "entries")}`;
}

function Node({ row, state }: { row: NodeRow; state: TreeState }) {
  return (
    <>
      <span class={row.isOpen ? "json-twist open" : "json-twist"}>{row.canOpen && <Icon name="right" />}</span>
      {row.name !== null && <span class="json-name">{oneLine(cut(String(row.name), 200))}</span>}
      <JsonContent row={row} state={state} />
    </>
  );
}

/** The buttons of the active row. */
function Tools({ row, state, isExpression }: { row: NodeRow; state: TreeState; isExpression: boolean }) {
  const { value, expression } = row;
  return (
    <span class="json-tools">
      {row.hasTable && (
        <Button kind="quiet" pressed={state.tables.value.has(row.id)} onClick={() => state.toggleTable(row)}>
          Table
        </Button>
      )}
      {row.size > 0 && (
        <Button kind="quiet" pressed={state.raws.value.has(row.id)} onClick={() => state.toggleRaw(row.id)}>
          Raw
        </Button>
      )}
      <Copy text={() => (typeof value === "string" ? value : jsonText(value))} what="the value" />
      {isExpression && (
        <Copy text={expression} what={cut(expression, 200)}>
          as expression
        </Copy>
      )}
    </span>
  );
}
