import type { Signal } from "@preact/signals";
import { Field } from "../parts/field.tsx";

/** Fields of a signal that no form shows, as one JSON map. */
export function JsonFields({ open, text, error }: { open: boolean; text: Signal<string>; error: string | null }) {
  return (
    <details class="json-fields" open={open || error !== null}>
      <summary>{open ? "Payload as JSON" : "More fields as JSON"}</summary>
      <Field label="JSON" help={'A map, such as {"note": "checked"}.'} error={error}>
        {(ids) => (
          <textarea
            {...ids}
            class="input mono"
            rows={4}
            spellcheck={false}
            value={text.value}
            onInput={(event) => {
              text.value = event.currentTarget.value;
            }}
          />
        )}
      </Field>
    </details>
  );
}
