import type { ComponentChildren } from "preact";
import { Status } from "../../look/status.tsx";
import { Button } from "../../parts/button.tsx";
import { select } from "../selection.ts";

/** The name of the selection, its status, and a link back to the run. */
export function Heading({
  title,
  status,
  children,
}: {
  title: ComponentChildren;
  status?: string;
  children?: ComponentChildren;
}) {
  return (
    <header class="inspector-heading">
      <div>
        <h2 class="cut">{title}</h2>
        {status && <Status status={status} soft />}
        <Button kind="quiet" icon="close" label="Clear the selection (Esc)" onClick={() => select({})} />
      </div>
      {children && <div class="inspector-facts">{children}</div>}
    </header>
  );
}
