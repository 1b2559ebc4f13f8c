/** One run at one event: header, history slider, graph, panel, inspector. */

import { useEffect, useMemo } from "preact/hooks";
import type { Resource } from "../api/resource.ts";
import type { Graph } from "../api/types.gen.ts";
import { useKeys } from "../keys.ts";
import { isPhone } from "../look/phone.ts";
import { Splitter } from "../parts/split.tsx";
import { Loading, ProblemBox } from "../parts/states.tsx";
import { sizePreference } from "../preferences.ts";
import type { ViewProps } from "../shell/app.tsx";
import { GraphPane, useGraph } from "./graph/graph.tsx";
import { RunHeader } from "./header/header.tsx";
import { HistorySlider } from "./history-slider/history-slider.tsx";
import { Inspector } from "./inspector/inspector.tsx";
import { RunModel } from "./model.ts";
import { NotFound } from "./not-found.tsx";
import { leave, panes, runKeys } from "./page-keys.ts";
import { PhoneBody } from "./page-phone.tsx";
import { Panel } from "./panel/panel.tsx";
import "./page.css";

const inspectorWidth = sizePreference("inspector-width", 420, 280, 720);
const panelHeight = sizePreference("panel-height", 260, 120, 640);

export default function RunPage({ params }: ViewProps) {
  const id = params.id ?? "";
  const model = useMemo(() => new RunModel(id), [id]);
  useEffect(() => {
    void model.start();
    return () => model.stop();
  }, [model]);
  useKeys("run", runKeys(id), [id]);
  useKeys("global", { leave: () => leave(model, isPhone.peek()) }, [model]);
  const problem = model.problem.value;
  if (!model.outline.value) {
    if (problem?.status === 404) return <NotFound id={id} />;
    return problem ? <ProblemBox problem={problem} onRetry={model.start} /> : <Loading onCancel={model.cancel} />;
  }
  return <Layout model={model} />;
}

function Layout({ model }: { model: RunModel }) {
  const graph = useGraph(model);
  return (
    <div class={model.isPast.value ? "run past" : "run"}>
      <RunHeader model={model} />
      <HistorySlider model={model} />
      {isPhone.value ? <PhoneBody model={model} graph={graph} /> : <WideBody model={model} graph={graph} />}
    </div>
  );
}

export interface BodyProps {
  model: RunModel;
  graph: Resource<Graph>;
}

/** Three panes with splitters. */
function WideBody({ model, graph }: BodyProps) {
  const shown = panes.value;
  return (
    <div class={`run-body panes-${shown}`}>
      <div class="run-left">
        {shown !== "panel" && <GraphPane model={model} graph={graph} />}
        {shown === "both" && (
          <Splitter size={panelHeight} least={120} most={640} label="Height of the panel" axis="y" />
        )}
        {shown !== "graph" && (
          <div class="run-panel" style={shown === "both" ? { height: `${panelHeight.value}px` } : {}}>
            <Panel model={model} />
          </div>
        )}
      </div>
      <Splitter size={inspectorWidth} least={280} most={720} label="Width of the inspector" axis="x" />
      <div class="run-inspector" style={{ width: `${inspectorWidth.value}px` }}>
        <Inspector model={model} graph={graph.data.value} />
      </div>
    </div>
  );
}
