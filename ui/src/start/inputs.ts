/** The inputs of a run between the form, its texts and the payload. Pure. */

import type { FormField } from "../api/types.gen.ts";
import { formatTyped, parseTyped, unknownPaths, valueAt, withValue } from "../text/typed.ts";

export type Texts = Record<string, string>;

/** The values of the form: those of a payload where it has them, otherwise the defaults. */
export function textsOf(form: FormField[], payload: Record<string, unknown>): Texts {
  return Object.fromEntries(
    form.map((field) => {
      const value = valueAt(payload, field.path);
      return [field.path, formatTyped(field.type, value === undefined ? shownDefault(field) : value)];
    }),
  );
}

function shownDefault(field: FormField): unknown {
  return field.template ? undefined : field.default;
}

/** The payload: the changes from the defaults, laid over values that the form does not show. */
export function payloadOf(form: FormField[], texts: Texts, others: Record<string, unknown>) {
  const errors: Record<string, string> = {};
  let payload = others;
  for (const field of form) {
    const text = texts[field.path] ?? "";
    if (text === formatTyped(field.type, shownDefault(field))) {
      if (field.required && text === "") errors[field.path] = "This input is required.";
      continue;
    }
    const parsed = field.enum ? enumValue(field.enum, text) : parseTyped(field.type, text);
    if ("error" in parsed) errors[field.path] = parsed.error;
    else payload = withValue(payload, field.path, parsed.value);
  }
  return { payload, errors };
}

export function enumTexts(field: FormField): string[] | null {
  return field.enum?.map((value) => formatTyped("any", value)) ?? null;
}

function enumValue(values: unknown[], text: string) {
  const found = values.find((value) => formatTyped("any", value) === text);
  return found === undefined ? { error: "Choose one of the values." } : { value: found };
}

/** Values of a payload that the form does not show, and the paths of those that the playbook does not declare. */
export function besideForm(form: FormField[], payload: Record<string, unknown>) {
  const declared = form.map(({ path }) => path);
  const unknown = unknownPaths(payload, declared);
  let others: Record<string, unknown> = {};
  for (const path of unknown) others = withValue(others, path, valueAt(payload, path));
  return { others, unknown };
}
