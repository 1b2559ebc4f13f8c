import { setQuery } from "../../location.ts";

/** Opens a part of the inspector: Why is the first and needs no parameter. */
export function openPart(part: string): void {
  setQuery({ part: part === "why" ? null : part }, { replace: true });
}
