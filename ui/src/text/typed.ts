/** Values that a user enters as text: parsed by the type of the field, and set at dotted paths. Pure. */

import { exactNumber, isMap, parseJson } from "./json.ts";

export type FieldType = "any" | "array" | "boolean" | "integer" | "number" | "object" | "string";

type Parsed = { value: unknown } | { error: string };

/** The value of a text in a field; a text without a value is for the caller to leave out. */
export function parseTyped(type: FieldType, text: string): Parsed {
  const trimmed = text.trim();
  switch (type) {
    case "string":
      return { value: text };
    case "boolean":
      return trimmed === "true" || trimmed === "false" ? { value: trimmed === "true" } : { error: "Choose yes or no." };
    case "integer":
    case "number":
      if (type === "integer" && !/^[+-]?\d+$/.test(trimmed)) return { error: "Enter a whole number." };
      return numberOf(trimmed);
    case "any":
      return anyValue(trimmed, text);
    default:
      return ofType(parsedJson(text), type);
  }
}

function numberOf(text: string): Parsed {
  const value = exactNumber(text);
  return value === null ? { error: "Enter a number." } : { value };
}

/** The value if it is valid JSON, otherwise the text itself, so that names need no quotes. */
function anyValue(trimmed: string, text: string): Parsed {
  const parsed = parsedJson(trimmed);
  return "value" in parsed || /^[[{"]/.test(trimmed) ? parsed : { value: text };
}

function parsedJson(text: string): Parsed {
  try {
    return { value: parseJson(text) };
  } catch (error) {
    return { error: `This is not JSON: ${(error as Error).message}` };
  }
}

/** The map of a JSON text; an empty text is an empty map. */
export function parseMap(text: string): { value: Record<string, unknown> } | { error: string } {
  if (!text.trim()) return { value: {} };
  const parsed = ofType(parsedJson(text), "object");
  return "error" in parsed ? parsed : { value: parsed.value as Record<string, unknown> };
}

function ofType(parsed: Parsed, type: "array" | "object"): Parsed {
  if ("error" in parsed) return parsed;
  if (type === "array") return Array.isArray(parsed.value) ? parsed : { error: "Enter a list, such as [1, 2]." };
  return isMap(parsed.value) ? parsed : { error: 'Enter a map, such as {"key": "value"}.' };
}

/** The text that a field shows for a value. */
export function formatTyped(type: FieldType, value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "string" && (type === "string" || type === "any")) return value;
  return JSON.stringify(value, null, type === "array" || type === "object" ? 2 : undefined) ?? "";
}

/** The value at a dotted path, undefined if there is none. */
export function valueAt(map: unknown, path: string): unknown {
  let value = map;
  for (const key of path.split(".")) {
    if (!isMap(value) || !Object.hasOwn(value, key)) return undefined;
    value = value[key];
  }
  return value;
}

/** A copy of a map with a value at a dotted path. */
export function withValue(map: Record<string, unknown>, path: string, value: unknown): Record<string, unknown> {
  const [key = "", ...rest] = path.split(".");
  const inner = map[key];
  const next = rest.length ? withValue(isMap(inner) ? inner : {}, rest.join("."), value) : value;
  return { ...map, [key]: next };
}

/** Dotted paths of the leaves of a map that no declared path covers, such as `order.custmer`. */
export function unknownPaths(map: Record<string, unknown>, declared: string[], prefix = ""): string[] {
  return Object.entries(map).flatMap(([key, value]) => {
    const path = prefix + key;
    if (declared.includes(path)) return [];
    const inside = declared.some((name) => name.startsWith(`${path}.`));
    return inside && isMap(value) ? unknownPaths(value, declared, `${path}.`) : [path];
  });
}
