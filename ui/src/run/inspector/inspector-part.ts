import { setQuery } from "../../location.ts";

/** Opens a part of the inspector. It stays open for whatever is selected next. */
export function openPart(part: string): void {
  setQuery({ part }, { replace: true });
}
