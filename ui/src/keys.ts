/** Every key of the page in one table: it binds the keys, fills the help dialog and drives the tests. */

import { useLayoutEffect } from "preact/hooks";
import { singleKeys } from "./preferences.ts";

export type Scope = "global" | "lists" | "run" | "slider" | "graph" | "editor";

/** Keys are "Ctrl K", "g r" or "?"; several spellings of one action are separated by " or ". */
type Key = readonly [scope: Scope, keys: string, action: string, text: string];

export const KEYS: readonly Key[] = [
  ["global", "Ctrl K", "palette", "Open the command palette"],
  ["global", "?", "help", "Show the keyboard shortcuts"],
  ["global", "/", "filter", "Go to the filter"],
  ["global", "g r", "go-runs", "Open Runs"],
  ["global", "g p", "go-playbooks", "Open Playbooks"],
  ["global", "g s", "go-schedules", "Open Schedules"],
  ["global", "g w", "go-workers", "Open Workers"],
  ["global", "c", "copy-link", "Copy the link to this view"],
  ["global", ".", "actions", "Open the actions"],
  ["global", "Escape", "leave", "Leave the field, sheet, past event or selection"],
  ["lists", "j or ArrowDown", "next-row", "Next row"],
  ["lists", "k or ArrowUp", "previous-row", "Previous row"],
  ["lists", "Home", "first-row", "First row"],
  ["lists", "End", "last-row", "Last row"],
  ["lists", "PageDown", "next-page", "Next page"],
  ["lists", "PageUp", "previous-page", "Previous page"],
  ["lists", "Enter", "open", "Open"],
  ["lists", "o", "preview", "Preview"],
  ["lists", "x or X", "select", "Select; with Shift a range"],
  ["lists", "F", "failures-first", "Failures first"],
  ["run", "n", "graph", "Graph"],
  ["run", "t", "timeline", "Timeline"],
  ["run", "e", "events", "Events"],
  ["run", "l", "logs", "Logs"],
  ["run", "d", "data", "Data"],
  ["run", "i", "items", "Items"],
  ["run", "w", "why", "Why"],
  ["run", "1", "level-step", "Events of steps"],
  ["run", "2", "level-task", "Events of tasks"],
  ["run", "3", "level-event", "All events"],
  ["run", "Ctrl F", "search-log", "Search the log; again for the search of the browser"],
  ["run", "Alt Z", "wrap", "Wrap the lines of the log"],
  ["run", "v", "panes", "Graph and panel, graph only, panel only"],
  ["run", "G", "gaps", "Expand or collapse idle gaps of the timeline"],
  ["run", "J", "next-run", "Next run of the list"],
  ["run", "K", "previous-run", "Previous run of the list"],
  ["slider", "ArrowLeft", "back", "One event back; with Shift 100"],
  ["slider", "ArrowRight", "forward", "One event forward; with Shift 100"],
  ["slider", "[", "previous-marker", "Previous marker"],
  ["slider", "]", "next-marker", "Next marker"],
  ["slider", "{", "previous-decision", "Previous decision about the selection"],
  ["slider", "}", "next-decision", "Next decision about the selection"],
  ["slider", "Space", "play", "Play"],
  ["slider", "T", "scale", "Scale by event number or by time"],
  ["slider", "Home", "first", "First event"],
  ["slider", "End", "latest", "Latest event"],
  ["graph", "+", "zoom-in", "Zoom in"],
  ["graph", "-", "zoom-out", "Zoom out"],
  ["graph", "0", "zoom-reset", "Original size"],
  ["graph", "f", "zoom-fit", "Fit the window"],
  ["graph", "s", "find-step", "Find a step"],
  ["graph", "Arrows", "follow-arcs", "Follow the arcs"],
  ["graph", "Enter", "select-step", "Select the step"],
  ["editor", "F8", "next-problem", "Next problem"],
  ["editor", "Ctrl S", "save-draft", "Save the draft"],
  ["editor", "Ctrl Enter", "start", "Start"],
  ["editor", "Escape then Tab", "leave-editor", "Leave the editor"],
];

/** The name of a key press in the table. */
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
  for (const [of, keys, action] of KEYS) {
    if (of !== scope) continue;
    const spellings = keys.split(" or ");
    if (spellings.includes(name) || (before && spellings.includes(`${before} ${name}`))) return action;
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
