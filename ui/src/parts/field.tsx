import { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import "./field.css";

/** A labelled control; help and error are read with it. */
export function Field({
  label,
  note,
  help,
  error,
  children,
}: {
  label: string;
  note?: string | undefined; // beside the label
  help?: string | undefined;
  error?: string | null;
  children: (ids: { id: string; "aria-describedby": string | undefined; "aria-invalid": boolean }) => ComponentChildren;
}) {
  const id = useId();
  const described = note || help || error ? `${id}-note ${id}-text` : undefined;
  return (
    <div class="field">
      <div class="field-head">
        <label for={id}>{label}</label> {note && <small id={`${id}-note`}>{note}</small>}
      </div>
      {children({ id, "aria-describedby": described, "aria-invalid": Boolean(error) })}
      {(error || help) && (
        <p id={`${id}-text`} class={error ? "field-error" : "field-help"}>
          {error ?? help}
        </p>
      )}
    </div>
  );
}

type Bound<T extends string> = T | Signal<T>; // a signal receives the changes

function read<T extends string>(value: Bound<T>): T {
  return value instanceof Signal ? value.value : value;
}

function put<T extends string>(value: Bound<T>, changed: T, onChange?: (value: T) => void) {
  if (value instanceof Signal) value.value = changed;
  onChange?.(changed);
}

interface TextFieldProps {
  label: string;
  value: Bound<string>;
  onInput?: (value: string) => void;
  help?: string | undefined;
  error?: string | null;
  password?: boolean;
  autocomplete?: string;
  list?: string; // the id of a datalist
  mono?: boolean;
}

export function TextField({ label, value, onInput, help, error, mono, password, ...input }: TextFieldProps) {
  return (
    <Field label={label} help={help} error={error ?? null}>
      {(ids) => (
        <input
          {...ids}
          {...input}
          type={(password ? "password" : "text") as "text"}
          class={mono ? "input mono" : "input"}
          value={read(value)}
          onInput={({ currentTarget }) => put(value, currentTarget.value, onInput)}
        />
      )}
    </Field>
  );
}

interface SelectProps<T extends string> {
  label: string;
  value: Bound<T>;
  options: readonly (T | { value: T; label: string })[]; // a value may be its own label
  onChange?: (value: T) => void;
}

/** A choice without a visible label. */
export function Select<T extends string>(props: SelectProps<T> & { id?: string }) {
  const { label, value, options, onChange, ...select } = props;
  return (
    <select
      {...select}
      class="input"
      aria-label={select.id ? undefined : label}
      value={read(value)}
      onChange={({ currentTarget }) => put(value, currentTarget.value as T, onChange)}
    >
      {options.map((option) => {
        const choice = typeof option === "string" ? { value: option, label: option } : option;
        return (
          <option key={choice.value} value={choice.value}>
            {choice.label}
          </option>
        );
      })}
    </select>
  );
}

export function SelectField<T extends string>(props: SelectProps<T>) {
  return <Field label={props.label}>{(ids) => <Select {...props} {...ids} />}</Field>;
}
