import { signal } from "@preact/signals";

export const helpOpen = signal(false);

export function openHelp(): void {
  helpOpen.value = true;
}
