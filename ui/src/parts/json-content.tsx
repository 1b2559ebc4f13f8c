import { useMemo, useState } from "preact/hooks";
import { isMap } from "../text/json.ts";
import { bytes } from "../text/number.ts";
import { cut, oneLine, printable } from "../text/printable.ts";
import { Button } from "./button.tsx";
import { Copy } from "./copy.tsx";
import { download } from "./download.ts";
import { jsonText, type NodeRow } from "./json-rows.ts";
import { digestOf, type TreeState } from "./json-state.ts";
import { preview, type Reference, referenceOf, sizeText } from "./json-value.ts";

const ROW_CHARACTERS = 200; // characters of a text that a row shows
const MORE_CHARACTERS = 100_000; // characters that "show all" adds at once: more would make the browser slow

/** The value of a row, as one line if it can be. */
export function JsonContent({ row, state }: { row: NodeRow; state: TreeState }) {
  const { value, kind, size, isOpen } = row;
  const reference = kind === "reference" ? referenceOf(value) : null;
  if (reference) return <Referenced reference={reference} row={row} state={state} />;
  if (kind === "text") return <Text text={String(value)} row={row} state={state} />;
  if (state.raws.value.has(row.id)) return <Raw value={value} />;
  if (kind !== "map" && kind !== "list") return <span class={`json-${kind}`}>{preview(value)}</span>;
  return (
    <span class="json-summary">
      {!isOpen && <span class="json-preview">{preview(value)}</span>}
      {size > 0 && <small>{sizeText(kind, size)}</small>}
    </span>
  );
}

/** A value as JSON text. */
export function Raw({ value }: { value: unknown }) {
  const [shown, setShown] = useState(MORE_CHARACTERS);
  const text = useMemo(() => jsonText(value), [value]);
  return (
    <span class="json-long">
      <pre>{printable(cut(text, shown))}</pre>
      {text.length > shown && <Button onClick={() => setShown(shown + MORE_CHARACTERS)}>Show more</Button>}
    </span>
  );
}

function Text({ text, row, state }: { text: string; row: NodeRow; state: TreeState }) {
  const shown = state.shownText.value.get(row.id) ?? 0;
  const isLong = text.length > ROW_CHARACTERS || text.includes("\n");
  if (shown)
    return (
      <span class="json-long">
        <pre class="json-text">{printable(cut(text, shown))}</pre>
        {text.length > shown && (
          <Button onClick={() => state.showText(row.id, shown + MORE_CHARACTERS)}>Show more</Button>
        )}
        <Button kind="quiet" onClick={() => state.showText(row.id, 0)}>
          Show less
        </Button>
      </span>
    );
  return (
    <span class="json-summary">
      <Quoted text={text} />
      {isLong && (
        <Button kind="quiet" onClick={() => state.showText(row.id, MORE_CHARACTERS)}>
          Show all
        </Button>
      )}
    </span>
  );
}

/** A text in quotes; an address is a link with its text unchanged. */
function Quoted({ text }: { text: string }) {
  const short = oneLine(cut(text, ROW_CHARACTERS)) + (text.length > ROW_CHARACTERS ? "..." : "");
  const isLink = /^https?:\/\//.test(text) && text.length <= ROW_CHARACTERS && short === text;
  return (
    <span class="json-text">
      "
      {isLink ? (
        <a href={text} target="_blank" rel="noopener noreferrer">
          {text}
        </a>
      ) : (
        short
      )}
      "
    </span>
  );
}

/** A value that is stored apart: its shape, size, checksum and preview; opening the row loads its content. */
function Referenced({ reference, row, state }: { reference: Reference; row: NodeRow; state: TreeState }) {
  const { size, checksum, schema_hint: hint, key } = reference;
  const problem = state.problems.value.get(row.id);
  const isSecret = hint === "secret";
  return (
    <span class="json-summary">
      <span class="json-reference">{isSecret ? "secret" : `${shape(reference)}, ${bytes(size)}`}</span>
      {problem && <span class="json-problem">{problem.message}</span>}
      {!isSecret && (
        <>
          <span class="json-preview">{previewText(reference.preview)}</span>
          <small title={checksum}>{checksum.slice(0, 15)}</small>
          <Copy text={checksum} what="the checksum" />
          <Button
            kind="quiet"
            icon="download"
            label="Download the stored value"
            onClick={() => void download(`/results/${encodeURIComponent(digestOf(key))}`, digestOf(key).slice(0, 16))}
          />
        </>
      )}
    </span>
  );
}

/** "list of 12,000 items", "text". */
function shape({ schema_hint: hint, preview: shown }: Reference): string {
  const word = hint.replace(/\+refs$/, "").replace(/^chunks$/, "list") || "value";
  const total = isMap(shown) && typeof shown.count === "number" ? shown.count : null;
  if (total === null || (word !== "list" && word !== "map")) return `stored ${word}`;
  return `stored ${word} of ${sizeText(word, total)}`;
}

function previewText(shown: unknown): string {
  if (typeof shown === "string") return `"${oneLine(shown)}..."`;
  if (isMap(shown) && Array.isArray(shown.keys)) return `{${shown.keys.map((key) => oneLine(String(key))).join(", ")}}`;
  return "";
}
