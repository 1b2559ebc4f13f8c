/** The storage of this browser. If it forbids storage, nothing is stored and nothing fails. */

import { parseJson } from "./text/json.ts";

/** `localStorage` outlives the tab, `sessionStorage` a reload. */
type Kind = "localStorage" | "sessionStorage";

export function readText(kind: Kind, key: string): string | null {
  try {
    return window[kind].getItem(key);
  } catch {
    return null;
  }
}

/** Null if there is nothing, or something else than JSON. */
export function readJson(kind: Kind, key: string): unknown {
  try {
    return parseJson(readText(kind, key) ?? "null");
  } catch {
    return null;
  }
}

/** Null removes the key. False if the browser does not keep the text. */
export function writeText(kind: Kind, key: string, text: string | null): boolean {
  try {
    if (text === null) window[kind].removeItem(key);
    else window[kind].setItem(key, text);
    return true;
  } catch {
    return false;
  }
}

/** Clear the storage of the tab: its next user must not see the input of the previous one. */
export function clearSession(): void {
  try {
    window.sessionStorage.clear();
  } catch {
    // Nothing was stored.
  }
}
