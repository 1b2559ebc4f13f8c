/** Where the user is: the URL holds everything that is worth linking. */

import { computed, signal } from "@preact/signals";
import { parsePath, type Query } from "./routes.ts";

interface Place {
  path: string;
  search: string;
}

const here = (): Place => ({ path: window.location.pathname, search: window.location.search });
const place = signal<Place>(here());

export const path = computed(() => place.value.path);
export const query = computed(() => new URLSearchParams(place.value.search));
export const route = computed(() => parsePath(place.value.path));

/** One parameter of the query, "" if it is not there. */
export function parameter(name: string): string {
  return query.value.get(name) ?? "";
}

/** Opens another view; `replace` while the user drags or types, a new entry of the history otherwise. */
export function go(url: string, { replace = false } = {}): void {
  if (url === place.peek().path + place.peek().search) return;
  window.history[replace ? "replaceState" : "pushState"](null, "", url);
  place.value = here();
}

/** Changes parameters of this view; null removes one, all others stay. */
export function setQuery(changes: Query, options: { replace?: boolean } = {}): void {
  const next = new URLSearchParams(place.peek().search);
  for (const [name, value] of Object.entries(changes)) {
    if (value == null || value === "") next.delete(name);
    else next.set(name, String(value));
  }
  const text = next.toString();
  go(place.peek().path + (text ? `?${text}` : ""), options);
}

/** Follows Back and Forward, and opens links to views without loading the page again. */
export function startNavigation(): void {
  window.addEventListener("popstate", () => {
    place.value = here();
  });
  document.addEventListener("click", (event) => {
    const link = linkOf(event);
    if (!link) return;
    event.preventDefault();
    go(link);
  });
}

function linkOf(event: MouseEvent): string | null {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return null;
  const anchor = event.composedPath().find((node): node is HTMLAnchorElement => node instanceof HTMLAnchorElement);
  if (!anchor?.href || anchor.target || anchor.hasAttribute("download")) return null;
  const url = new URL(anchor.href);
  const isView = url.origin === window.location.origin && parsePath(url.pathname) !== null && !url.hash;
  return isView ? url.pathname + url.search : null;
}
