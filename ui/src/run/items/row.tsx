import type { LoopItem } from "../../api/types.gen.ts";
import { Status } from "../../look/status.tsx";
import { count } from "../../text/number.ts";
import { oneLine } from "../../text/printable.ts";
import { duration } from "../../text/time.ts";

export const ITEM_HEIGHT = 28;

const COLUMNS = [
  ["index", "Index"],
  ["status", "Status"],
  ["preview", "Item"],
  ["attempts", "Attempts"],
  ["duration", "Duration"],
  ["error", "Error"],
];

export function ItemColumns() {
  return (
    <div class="item-row">
      {COLUMNS.map(([name, label]) => (
        <span key={name} class={`item-${name}`}>
          {label}
        </span>
      ))}
    </div>
  );
}

export function ItemCells({ index, item }: { index: number; item: LoopItem | undefined }) {
  const error = item?.error ? `${item.error.kind}: ${item.error.message}` : "";
  return (
    <>
      <span class="item-index" role="gridcell">
        {count(index)}
      </span>
      <span class="item-status" role="gridcell">
        {item ? <Status status={item.status} /> : <span class="placeholder w2" />}
      </span>
      <span class="item-preview cut" role="gridcell" title={item?.preview ?? ""}>
        {oneLine(item?.preview ?? "")}
      </span>
      <span class="item-attempts" role="gridcell">
        {item && item.attempts > 0 ? count(item.attempts) : ""}
      </span>
      <span class="item-duration" role="gridcell">
        {item?.duration_ms == null ? "" : duration(item.duration_ms)}
      </span>
      <span class="item-error cut" role="gridcell" title={error}>
        {oneLine(error)}
      </span>
    </>
  );
}
