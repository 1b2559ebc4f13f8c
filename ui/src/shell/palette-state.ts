/** Whether the command palette is open, and the actions that the current view offers in it. */

import { signal } from "@preact/signals";

export interface PaletteAction {
  label: string;
  hint?: string;
  reason?: string | null; // why it cannot be chosen
  run: () => void;
}

export const paletteOpen = signal(false);
const offered = signal<ReadonlyMap<string, () => PaletteAction[]>>(new Map());

export function openPalette(): void {
  paletteOpen.value = true;
}

/** A view offers actions while it is shown; the returned function withdraws them. */
export function offerActions(from: string, actions: () => PaletteAction[]): () => void {
  offered.value = new Map(offered.peek()).set(from, actions);
  return () => {
    const rest = new Map(offered.peek());
    rest.delete(from);
    offered.value = rest;
  };
}

export function offeredActions(): PaletteAction[] {
  return [...offered.value.values()].flatMap((actions) => actions());
}
