import type { RunModel } from "../model.ts";
import { selection } from "../selection.ts";

export function Inspector({ model }: { model: RunModel }) {
  const { step, run } = selection.value;
  return (
    <aside aria-label="Inspector">
      <h2>{run || step || model.details.value?.name}</h2>
    </aside>
  );
}
