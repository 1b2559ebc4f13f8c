import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import "./field.css";

/** A labelled control; help and error are read with it. */
export function Field({
  label,
  help,
  error,
  children,
}: {
  label: string;
  help?: string;
  error?: string | null;
  children: (ids: { id: string; "aria-describedby"?: string; "aria-invalid"?: boolean }) => ComponentChildren;
}) {
  const id = useId();
  const described = help || error ? { "aria-describedby": `${id}-text` } : {};
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, ...described, ...(error ? { "aria-invalid": true } : {}) })}
      {(error || help) && (
        <p id={`${id}-text`} class={error ? "field-error" : "field-help"}>
          {error ?? help}
        </p>
      )}
    </div>
  );
}

interface TextFieldProps {
  label: string;
  value: string;
  onInput: (value: string) => void;
  help?: string;
  error?: string | null;
  password?: boolean;
  autocomplete?: string;
  autofocus?: boolean;
  mono?: boolean;
}

export function TextField({ label, value, onInput, help, error, mono, autofocus, password, ...input }: TextFieldProps) {
  return (
    <Field label={label} {...(help ? { help } : {})} error={error ?? null}>
      {(ids) => (
        <input
          {...ids}
          {...input}
          type={(password ? "password" : "text") as "text"}
          ref={(element) => {
            if (autofocus && element && !element.dataset.focused) {
              element.dataset.focused = "1";
              element.focus();
            }
          }}
          class={mono ? "input mono" : "input"}
          value={value}
          onInput={(event) => onInput(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

export function Select({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: string;
  options: { value: string; label: string }[];
  onChange: (value: string) => void;
}) {
  return (
    <select class="input" aria-label={label} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      {options.map((option) => (
        <option key={option.value} value={option.value}>
          {option.label}
        </option>
      ))}
    </select>
  );
}
