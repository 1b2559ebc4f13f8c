/** The keys of the run view, and the panes that they change. */

import { go, parameter, setQuery } from "../location.ts";
import { toastProblem } from "../parts/toast.tsx";
import { preference } from "../preferences.ts";
import { href } from "../routes.ts";
import { neighbour } from "../runs/last-list.ts";
import { openPart } from "./inspector/inspector-part.ts";
import type { RunModel } from "./model.ts";
import { TABS } from "./panel/panel.tsx";
import { hasSelection, select } from "./selection.ts";

type Panes = "both" | "graph" | "panel";
export const panes = preference<Panes>("panes", (text) => (text === "graph" || text === "panel" ? text : "both"));
const FOCUS_MS = 10_000; // the longest that a key waits for the element that it focuses
const NEXT_PANES: Record<Panes, Panes> = { both: "graph", graph: "panel", panel: "both" };

export function runKeys(id: string) {
  const open = (tab: string) => () => {
    if (panes.peek() === "graph") panes.value = "both";
    setQuery({ tab });
  };
  const openRun = (step: 1 | -1) => async () => {
    try {
      const next = await neighbour(id, step);
      if (next) go(href("run", { id: next }, { tab: parameter("tab") }));
    } catch (error) {
      toastProblem("The list was not loaded", error);
    }
  };
  return {
    ...Object.fromEntries(TABS.map(({ name }) => [name, open(name)])),
    graph: showGraph,
    why: showWhy,
    "next-run": openRun(1),
    "previous-run": openRun(-1),
    panes: () => {
      panes.value = NEXT_PANES[panes.value];
    },
  };
}

/** Shows the graph and puts the focus on its box. */
function showGraph(): void {
  if (panes.peek() === "panel") panes.value = "both";
  setQuery({ tab: null });
  focusSoon(".graph .box[tabindex='0']");
}

/** Opens Why of the selection and puts the focus there. */
function showWhy(): void {
  openPart("why");
  focusSoon(".inspector [role=tab][aria-selected=true], .inspector .event-link");
}

let focusFrame = 0; // of the latest element that is to get the focus

/** Focuses an element when it is rendered, unless the user moves the focus before. */
function focusSoon(selector: string): void {
  const [before, limit] = [document.activeElement, performance.now() + FOCUS_MS];
  const attempt = () => {
    const active = document.activeElement;
    if (active !== before && active !== document.body) return;
    const element = document.querySelector<HTMLElement>(selector);
    if (element) element.focus();
    else if (performance.now() < limit) focusFrame = window.requestAnimationFrame(attempt);
  };
  window.cancelAnimationFrame(focusFrame);
  focusFrame = window.requestAnimationFrame(attempt);
}

/** Esc leaves the past first, then the selection; on a phone the selection is a sheet, which goes first. */
export function leave(model: RunModel, hasSheet: boolean): void {
  const isSelected = hasSelection.peek();
  if (model.isPast.peek() && !(hasSheet && isSelected)) model.backToLatest();
  else if (isSelected) select({});
}
