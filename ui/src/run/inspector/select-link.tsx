import type { ComponentChildren } from "preact";
import { type Selection, select } from "../selection.ts";

/** Text that selects a part of the run. */
export function SelectLink({ children, ...part }: Partial<Selection> & { children: ComponentChildren }) {
  return (
    <button type="button" class="link" onClick={() => select(part)}>
      {children}
    </button>
  );
}
