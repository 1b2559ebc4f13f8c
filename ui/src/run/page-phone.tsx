/** The run view on a phone: panes are tabs, and the inspector is a sheet at the bottom. */

import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { parameter, setQuery } from "../location.ts";
import { Button } from "../parts/button.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { GraphPane } from "./graph/graph.tsx";
import { RunActions } from "./header/header.tsx";
import { Inspector } from "./inspector/inspector.tsx";
import type { BodyProps } from "./page.tsx";
import { Panel, TABS } from "./panel/panel.tsx";
import { hasSelection } from "./selection.ts";

const PHONE_TABS = [{ name: "graph", label: "Graph" }, { name: "summary", label: "Summary" }, ...TABS];

export function PhoneBody({ model, graph }: BodyProps) {
  const wanted = parameter("tab") || "graph";
  const tab = PHONE_TABS.some(({ name }) => name === wanted) ? wanted : "graph";
  const isList = TABS.some(({ name }) => name === tab);
  const isSelected = hasSelection.value;
  return (
    <div class="run-body">
      <Tabs
        label="Parts of the run"
        tabs={PHONE_TABS}
        active={tab}
        onChoose={(name) => setQuery({ tab: name === "graph" ? null : name })}
      />
      <div class="run-pane">
        {tab === "graph" ? (
          <GraphPane model={model} graph={graph} />
        ) : tab === "summary" && !isSelected ? (
          <Inspector model={model} graph={graph.data.value} />
        ) : (
          isList && <Panel model={model} />
        )}
      </div>
      {isSelected && <Sheet model={model} graph={graph} headingOnly={isList} />}
      <RunActions model={model} />
    </div>
  );
}

/** Until it is expanded, it covers the lower half of the graph, and only its heading is over a list. */
function Sheet({ model, graph, headingOnly }: BodyProps & { headingOnly: boolean }) {
  const isTall = useSignal(false);
  const sheet = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => sheet.current?.scrollIntoView({ block: "nearest" }), []); // a long error may hide it
  return (
    <div ref={sheet} class={isTall.value ? "sheet tall" : headingOnly ? "sheet heading-only" : "sheet"}>
      <div class="sheet-handle">
        <Button
          kind="quiet"
          icon={isTall.value ? "down" : "up"}
          label={isTall.value ? "Collapse the inspector" : "Expand the inspector"}
          onClick={() => {
            isTall.value = !isTall.value;
          }}
        />
      </div>
      <Inspector model={model} graph={graph.data.value} />
    </div>
  );
}
