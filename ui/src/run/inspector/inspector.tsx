/** Details of the selection; without one, of the run. */

import type { Graph } from "../../api/types.gen.ts";
import { go } from "../../location.ts";
import { Button } from "../../parts/button.tsx";
import { Copy } from "../../parts/copy.tsx";
import { href } from "../../routes.ts";
import type { RunModel } from "../model.ts";
import { selection } from "../selection.ts";
import { ArcInspector } from "./arc.tsx";
import { EventInspector } from "./event.tsx";
import { StepInspector } from "./step.tsx";
import { Summary } from "./summary.tsx";
import "./inspector.css";

export interface InspectorProps {
  model: RunModel;
  graph: Graph | undefined;
}

export function Inspector({ model, graph }: InspectorProps) {
  const { arc, event, step } = selection.value;
  return (
    <aside class="inspector" aria-label="Inspector">
      <div class="inspector-body">
        {arc ? (
          <ArcInspector key={arc} model={model} graph={graph} arc={arc} />
        ) : event !== null ? (
          <EventInspector key={event} model={model} seq={event} />
        ) : step ? (
          <StepInspector key={step} model={model} graph={graph} />
        ) : (
          <Summary model={model} />
        )}
      </div>
      <footer class="inspector-footer">
        <Button
          role="operator"
          onClick={() => go(href("fork", { id: model.id }, { at: model.isPast.peek() ? model.at.peek() : null }))}
        >
          Fork from here...
        </Button>
        <Copy text={() => window.location.href} what="the link to this view">
          Link
        </Copy>
      </footer>
    </aside>
  );
}
