import { useId } from "preact/hooks";
import type { FieldType } from "../text/typed.ts";
import { Field, Select } from "./field.tsx";
import "./typed-field.css";

interface TypedFieldProps {
  label: string;
  type: FieldType;
  value: string; // as text; parseTyped gives the value
  onInput: (text: string) => void;
  options?: string[] | null; // the texts that are allowed
  help?: string | undefined;
  error?: string | null;
  optional?: boolean; // of a choice: nothing may be chosen
}

const TYPE_WORD: Record<FieldType, string> = {
  any: "text or JSON",
  array: "list as JSON",
  boolean: "yes or no",
  integer: "whole number",
  number: "number",
  object: "map as JSON",
  string: "text",
};

/** A control for a value of a type: a choice, a number, a text, or JSON. */
export function TypedField(props: TypedFieldProps) {
  const { label, type, value, onInput, options, help, error, optional } = props;
  if (type === "boolean" && !options) return <YesNo {...props} />;
  const isJson = type === "array" || type === "object";
  return (
    <Field label={label} note={TYPE_WORD[type]} help={help} error={error ?? null}>
      {(ids) =>
        options ? (
          <Select
            {...ids}
            label={label}
            value={value}
            options={optional || !options.includes(value) ? ["", ...options] : options}
            onChange={onInput}
          />
        ) : isJson ? (
          <textarea
            {...ids}
            class="input mono"
            rows={Math.min(10, Math.max(2, value.split("\n").length))}
            spellcheck={false}
            value={value}
            onInput={(event) => onInput(event.currentTarget.value)}
          />
        ) : (
          <input
            {...ids}
            class="input"
            type="text"
            inputMode={type === "number" || type === "integer" ? "decimal" : "text"}
            autocomplete="off"
            value={value}
            onInput={(event) => onInput(event.currentTarget.value)}
          />
        )
      }
    </Field>
  );
}

function YesNo({ label, value, onInput, help, error }: TypedFieldProps) {
  const id = useId();
  const text = error || help;
  return (
    <fieldset class="field yes-no" aria-describedby={text ? `${id}-text` : undefined}>
      <legend>{label}</legend>
      <div>
        {[
          ["true", "yes"],
          ["false", "no"],
        ].map(([choice = "", word]) => (
          <label key={choice} class="check">
            <input type="radio" name={id} checked={value === choice} onChange={() => onInput(choice)} /> {word}
          </label>
        ))}
      </div>
      {text && (
        <p id={`${id}-text`} class={error ? "field-error" : "field-help"}>
          {text}
        </p>
      )}
    </fieldset>
  );
}
