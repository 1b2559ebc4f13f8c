/** Preferences of this browser, which are not in the URL: theme, time zone, shortcuts, panel sizes. */

import { effect, type Signal, signal } from "@preact/signals";
import { readText, writeText } from "./storage.ts";

/** A signal that is stored in localStorage as text; `parse` validates the stored text. */
export function preference<T>(name: string, parse: (text: string | null) => T): Signal<T> {
  const key = `noetl.${name}`;
  const value = signal(parse(readText("localStorage", key)));
  effect(() => {
    writeText("localStorage", key, String(value.value));
  });
  return value;
}

export type Theme = "system" | "light" | "dark";

export const theme = preference<Theme>("theme", (text) => (text === "light" || text === "dark" ? text : "system"));
/** An IANA name; "" is the zone of the browser. */
export const zone = preference("zone", (text) => (text && isZone(text) ? text : ""));
export const singleKeys = preference("single-keys", (text) => text !== "false");

export function isZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat("en-GB", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** The size of a panel in pixels, within bounds. */
export function sizePreference(name: string, initial: number, least: number, most: number): Signal<number> {
  return preference(name, (text) => {
    const size = text === null ? Number.NaN : Number(text);
    return Number.isFinite(size) ? Math.min(most, Math.max(least, size)) : initial;
  });
}

effect(() => {
  if (theme.value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});
