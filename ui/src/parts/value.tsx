import { useMemo, useState } from "preact/hooks";
import { Button } from "./button.tsx";
import { Copy } from "./copy.tsx";
import { Raw } from "./json-content.tsx";
import { jsonText, rootEntries } from "./json-rows.ts";
import { TreeState } from "./json-state.ts";
import { JsonTable } from "./json-table.tsx";
import { JsonTree } from "./json-tree.tsx";
import { isTable, kindOf } from "./json-value.ts";

interface ValueProps {
  value: unknown;
  label: string; // "Result of fetch#1"
  prefix: string; // the template expression of the value, "" if there is none
}

/** Any value: as a tree with search, as a table if it is a list of maps, or as text. */
export function Value({ value, label, prefix }: ValueProps) {
  const state = useMemo(() => new TreeState(), [prefix]);
  const [form, setForm] = useState<"tree" | "table" | "raw">("tree");
  const [text, setText] = useState("");
  const kind = kindOf(value);
  const isComposite = kind === "map" || kind === "list";
  const hasTable = kind === "list" && isTable(value as unknown[]);
  const shown = form === "table" && !hasTable ? "tree" : form;
  const toggle = (wanted: "table" | "raw") => () => setForm(shown === wanted ? "tree" : wanted);
  return (
    <div class="value">
      {isComposite && (
        <div class="value-bar">
          <input
            class="input value-search"
            type="search"
            aria-label={`Search in ${label}`}
            placeholder="Find a key or value"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          {hasTable && (
            <Button kind="quiet" pressed={shown === "table"} onClick={toggle("table")}>
              Table
            </Button>
          )}
          <Button kind="quiet" pressed={shown === "raw"} onClick={toggle("raw")}>
            Raw
          </Button>
          <CopyJson value={value} what={label} />
        </div>
      )}
      {shown === "raw" && (
        <div class="value-raw">
          <Raw value={value} />
        </div>
      )}
      {shown === "table" && <JsonTable items={value as unknown[]} label={label} />}
      {shown === "tree" && (
        <JsonTree roots={rootEntries(value)} prefix={prefix} label={label} search={text.trim()} state={state} />
      )}
    </div>
  );
}

/** Copies a value: a text as it is, anything else as JSON. */
function CopyJson({ value, what }: { value: unknown; what: string }) {
  return <Copy text={() => (typeof value === "string" ? value : jsonText(value))} what={what} />;
}
