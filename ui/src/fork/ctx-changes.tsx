import type { Signal } from "@preact/signals";
import { useId } from "preact/hooks";
import { Icon } from "../look/icons.tsx";
import { Button } from "../parts/button.tsx";
import { jsonLine } from "../text/json-line.ts";
import { parseTyped } from "../text/typed.ts";

export interface CtxChange {
  id: number;
  key: string;
  text: string;
}

/** The changed values; `complete` is false while a row lacks a key or has JSON that cannot be read. */
export function readChanges(changes: CtxChange[]): { ctx: Record<string, unknown>; complete: boolean } {
  const ctx: Record<string, unknown> = {};
  let complete = true;
  for (const { key, text } of changes) {
    const parsed = parseTyped("any", text);
    if (!key.trim() || "error" in parsed) complete = false;
    else ctx[key.trim()] = parsed.value;
  }
  return { ctx, complete };
}

/** Values of ctx that the new run begins with instead of those at the event. */
export function CtxChanges({ changes, ctx }: { changes: Signal<CtxChange[]>; ctx: Record<string, unknown> }) {
  const list = useId();
  const put = (change: CtxChange) => {
    changes.value = changes.value.map((row) => (row.id === change.id ? change : row));
  };
  return (
    <section class="fork-part">
      <header>
        <h2>ctx</h2>
        <Button
          icon="plus"
          onClick={() => {
            const id = Math.max(0, ...changes.value.map((change) => change.id)) + 1;
            changes.value = [...changes.value, { id, key: "", text: "" }];
          }}
        >
          Change a value
        </Button>
      </header>
      <datalist id={list}>
        {Object.keys(ctx).map((key) => (
          <option key={key} value={key} />
        ))}
      </datalist>
      {!changes.value.length && (
        <p class="secondary">
          {Object.keys(ctx).length
            ? "The new run begins with ctx as it is at the event."
            : "ctx is empty at the event."}
        </p>
      )}
      {changes.value.map((change) => (
        <Row
          key={change.id}
          change={change}
          old={ctx[change.key.trim()]}
          list={list}
          onChange={put}
          onRemove={() => {
            changes.value = changes.value.filter(({ id }) => id !== change.id);
          }}
        />
      ))}
    </section>
  );
}

function Row({
  change,
  old,
  list,
  onChange,
  onRemove,
}: {
  change: CtxChange;
  old: unknown;
  list: string;
  onChange: (change: CtxChange) => void;
  onRemove: () => void;
}) {
  const parsed = parseTyped("any", change.text);
  const error = "error" in parsed ? parsed.error : null;
  return (
    <div class="ctx-change">
      <input
        class="input mono"
        aria-label="Key of ctx"
        placeholder="key"
        list={list}
        autocomplete="off"
        value={change.key}
        onInput={(event) => onChange({ ...change, key: event.currentTarget.value })}
      />
      <code class="cut secondary" title="Value at the event">
        {jsonLine(old)}
      </code>
      <Icon name="right" />
      <input
        class="input mono"
        aria-label={`New value of ${change.key || "the key"}`}
        aria-invalid={error ? true : undefined}
        placeholder="text or JSON"
        autocomplete="off"
        value={change.text}
        onInput={(event) => onChange({ ...change, text: event.currentTarget.value })}
      />
      <Button kind="quiet" icon="close" label="Remove this change" onClick={onRemove} />
      {error && <p class="field-error">{error}</p>}
    </div>
  );
}
