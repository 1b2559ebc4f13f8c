import { useState } from "preact/hooks";
import { isMap } from "../text/json.ts";
import { counted } from "../text/number.ts";
import { oneLine } from "../text/printable.ts";
import { Button } from "./button.tsx";
import { PAGE } from "./json-rows.ts";
import { columnsOf, kindOf, preview } from "./json-value.ts";

/** A list of maps as a table, 100 rows at a time. */
export function JsonTable({ items, label, more }: { items: unknown[]; label: string; more?: false | (() => void) }) {
  const [shown, setShown] = useState(PAGE);
  const columns = columnsOf(items);
  const left = items.length - shown;
  return (
    <div class="json-table" tabIndex={0} role="region" aria-label={`Table of ${label}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">#</th>
            {columns.map((name) => (
              <th key={name} scope="col">
                {oneLine(name)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {items.slice(0, shown).map((item, index) => (
            <tr key={index}>
              <th scope="row">{index}</th>
              {columns.map((name) => (
                <Cell key={name} item={item} name={name} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {(left > 0 || more) && (
        <Button
          onClick={() => {
            setShown(shown + PAGE);
            if (left < PAGE && more) more();
          }}
        >
          {left > 0 ? `Show ${counted(Math.min(left, PAGE), "more row")}` : "Show more rows"}
        </Button>
      )}
    </div>
  );
}

function Cell({ item, name }: { item: unknown; name: string }) {
  if (!isMap(item) || !(name in item)) return <td />;
  const value = item[name];
  const text = typeof value === "string" ? oneLine(value.slice(0, 200)) : preview(value);
  return (
    <td class={`json-${kindOf(value)}`} title={text}>
      {text}
    </td>
  );
}
