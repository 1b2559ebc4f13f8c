/** Every key of the page in one table: it binds the keys, fills the help dialog and drives the tests. */

import { useLayoutEffect } from "preact/hooks";
import { singleKeys } from "./preferences.ts";

export type Scope = "global" | "lists" | "run" | "slider" | "graph" | "editor";

interface Key {
  scope: Scope;
  keys: string; // "Ctrl K", "g r", "?"; several spellings of one action are separated by " or "
  action: string;
  text: string;
}

export const KEYS: readonly Key[] = [
  { scope: "global", keys: "Ctrl K", action: "palette", text: "Open the command palette" },
  { scope: "global", keys: "?", action: "help", text: "Show the keyboard shortcuts" },
  { scope: "global", keys: "/", action: "filter", text: "Go to the filter" },
  { scope: "global", keys: "g r", action: "go-runs", text: "Open Runs" },
  { scope: "global", keys: "g p", action: "go-playbooks", text: "Open Playbooks" },
  { scope: "global", keys: "g s", action: "go-schedules", text: "Open Schedules" },
  { scope: "global", keys: "g w", action: "go-workers", text: "Open Workers" },
  { scope: "global", keys: "c", action: "copy-link", text: "Copy the link to this view" },
  { scope: "global", keys: ".", action: "actions", text: "Open the actions" },
  { scope: "global", keys: "Escape", action: "leave", text: "Leave the field, sheet, past event or selection" },
  { scope: "lists", keys: "j or ArrowDown", action: "next-row", text: "Next row" },
  { scope: "lists", keys: "k or ArrowUp", action: "previous-row", text: "Previous row" },
  { scope: "lists", keys: "Home", action: "first-row", text: "First row" },
  { scope: "lists", keys: "End", action: "last-row", text: "Last row" },
  { scope: "lists", keys: "PageDown", action: "next-page", text: "Next page" },
  { scope: "lists", keys: "PageUp", action: "previous-page", text: "Previous page" },
  { scope: "lists", keys: "Enter", action: "open", text: "Open" },
  { scope: "lists", keys: "o", action: "preview", text: "Preview" },
  { scope: "lists", keys: "x or X", action: "select", text: "Select; with Shift a range" },
  { scope: "lists", keys: "F", action: "failures-first", text: "Failures first" },
  { scope: "run", keys: "n", action: "graph", text: "Graph" },
  { scope: "run", keys: "t", action: "timeline", text: "Timeline" },
  { scope: "run", keys: "e", action: "events", text: "Events" },
  { scope: "run", keys: "l", action: "logs", text: "Logs" },
  { scope: "run", keys: "d", action: "data", text: "Data" },
  { scope: "run", keys: "i", action: "items", text: "Items" },
  { scope: "run", keys: "w", action: "why", text: "Why" },
  { scope: "run", keys: "1", action: "level-step", text: "Events of steps" },
  { scope: "run", keys: "2", action: "level-task", text: "Events of tasks" },
  { scope: "run", keys: "3", action: "level-event", text: "All events" },
  { scope: "run", keys: "Ctrl F", action: "search-log", text: "Search the log; again for the search of the browser" },
  { scope: "run", keys: "Alt Z", action: "wrap", text: "Wrap the lines of the log" },
  { scope: "run", keys: "v", action: "panes", text: "Graph and panel, graph only, panel only" },
  { scope: "run", keys: "G", action: "gaps", text: "Expand or collapse idle gaps of the timeline" },
  { scope: "run", keys: "J", action: "next-run", text: "Next run of the list" },
  { scope: "run", keys: "K", action: "previous-run", text: "Previous run of the list" },
  { scope: "slider", keys: "ArrowLeft", action: "back", text: "One event back; with Shift 100" },
  { scope: "slider", keys: "ArrowRight", action: "forward", text: "One event forward; with Shift 100" },
  { scope: "slider", keys: "[", action: "previous-marker", text: "Previous marker" },
  { scope: "slider", keys: "]", action: "next-marker", text: "Next marker" },
  { scope: "slider", keys: "{", action: "previous-decision", text: "Previous decision about the selection" },
  { scope: "slider", keys: "}", action: "next-decision", text: "Next decision about the selection" },
  { scope: "slider", keys: "Space", action: "play", text: "Play" },
  { scope: "slider", keys: "T", action: "scale", text: "Scale by event number or by time" },
  { scope: "slider", keys: "Home", action: "first", text: "First event" },
  { scope: "slider", keys: "End", action: "latest", text: "Latest event" },
  { scope: "graph", keys: "+", action: "zoom-in", text: "Zoom in" },
  { scope: "graph", keys: "-", action: "zoom-out", text: "Zoom out" },
  { scope: "graph", keys: "0", action: "zoom-reset", text: "Original size" },
  { scope: "graph", keys: "f", action: "zoom-fit", text: "Fit the window" },
  { scope: "graph", keys: "s", action: "find-step", text: "Find a step" },
  { scope: "graph", keys: "Arrows", action: "follow-arcs", text: "Follow the arcs" },
  { scope: "graph", keys: "Enter", action: "select-step", text: "Select the step" },
  { scope: "editor", keys: "F8", action: "next-problem", text: "Next problem" },
  { scope: "editor", keys: "Ctrl S", action: "save-draft", text: "Save the draft" },
  { scope: "editor", keys: "Ctrl Enter", action: "start", text: "Start" },
  { scope: "editor", keys: "Escape then Tab", action: "leave-editor", text: "Leave the editor" },
];

/** What a key press is called in the table. */
export function keyName(
  event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey"> & Partial<Pick<KeyboardEvent, "altKey" | "code">>,
): string {
  // With Alt some keyboards type another character, so the key itself is named.
  if (event.altKey && event.code?.startsWith("Key")) return `Alt ${event.code.slice(3)}`;
  const key = event.key === " " ? "Space" : event.key;
  return event.ctrlKey || event.metaKey ? `Ctrl ${key.length === 1 ? key.toUpperCase() : key}` : key;
}

/** The action of a key (after the key before it, for `g r`) in a scope, null if there is none. */
export function actionOf(scope: Scope, name: string, before: string): string | null {
  for (const key of KEYS) {
    if (key.scope !== scope) continue;
    const spellings = key.keys.split(" or ");
    if (spellings.includes(name) || (before && spellings.includes(`${before} ${name}`))) return key.action;
  }
  return null;
}

export type Actions = Record<string, (event: KeyboardEvent) => void>;

const PAIR_MS = 1000;
let before = { name: "", at: 0 };

/**
 * Binds the keys of a scope to actions as soon as the view is in the document, until it leaves. Keys are inactive in
 * text fields. The actions of a later render replace them if an input has changed.
 */
export function useKeys(scope: Scope, actions: Actions, inputs: readonly unknown[]): void {
  useLayoutEffect(() => bindKeys(scope, actions), inputs);
}

function bindKeys(scope: Scope, actions: Actions): () => void {
  const listen = (event: KeyboardEvent) => {
    const name = keyName(event);
    const isPair = before.name && event.timeStamp - before.at < PAIR_MS && before.at !== event.timeStamp;
    const action = actionOf(scope, name, isPair ? before.name : "");
    if (event.defaultPrevented || !isAllowed(event, name)) return;
    if (!action || !actions[action]) {
      if (name === "g") before = { name, at: event.timeStamp };
      return;
    }
    before = { name: "", at: 0 };
    event.preventDefault();
    actions[action]?.(event);
  };
  window.addEventListener("keydown", listen);
  return () => window.removeEventListener("keydown", listen);
}

function isAllowed(event: KeyboardEvent, name: string): boolean {
  if (name.startsWith("Ctrl ") || name.startsWith("Alt ")) return true;
  if (event.altKey) return false;
  const target = event.composedPath()[0];
  const typing = target instanceof HTMLElement && (target.isContentEditable || isTextField(target));
  if (typing) return false;
  if ((name === "Space" || name === "Enter") && target instanceof Element && target.closest(PRESSED)) return false;
  const isModal = document.querySelector("dialog[open]") !== null;
  return !isModal && (name.length > 1 || singleKeys.peek());
}

/** Elements that Space and Enter activate by themselves. */
const PRESSED = "button, a[href], summary, input[type=checkbox], input[type=radio], [role=option], [role^=menuitem]";

function isTextField(element: HTMLElement): boolean {
  if (element instanceof HTMLInputElement)
    return !["checkbox", "radio", "range", "button", "submit"].includes(element.type);
  return element instanceof HTMLTextAreaElement || element instanceof HTMLSelectElement;
}
