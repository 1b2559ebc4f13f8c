/** One run at one event: header, history slider, graph, panel, inspector (PAGE 5.2). */

import { useEffect, useMemo } from "preact/hooks";
import { bindKeys } from "../keys.ts";
import { parameter, setQuery } from "../location.ts";
import { Splitter } from "../parts/split.tsx";
import { Loading, ProblemBox } from "../parts/states.tsx";
import { kept, keptSize } from "../personal.ts";
import type { ViewProps } from "../shell/app.tsx";
import { GraphPane } from "./graph.tsx";
import { RunHeader } from "./header.tsx";
import { HistorySlider } from "./history-slider.tsx";
import { Inspector } from "./inspector/inspector.tsx";
import { RunModel } from "./model.ts";
import { NotFound } from "./not-found.tsx";
import { Panel, TABS } from "./panel.tsx";
import { NOTHING, select, selection } from "./selection.ts";
import "./page.css";

const inspectorWidth = keptSize("inspector-width", 420, 280, 720);
const panelHeight = keptSize("panel-height", 260, 120, 640);
type Panes = "both" | "graph" | "panel";
const panes = kept<Panes>("panes", (text) => (text === "graph" || text === "panel" ? text : "both"));
const NEXT_PANES: Record<Panes, Panes> = { both: "graph", graph: "panel", panel: "both" };

export default function RunPage({ params }: ViewProps) {
  const id = params.id ?? "";
  const model = useMemo(() => new RunModel(id), [id]);
  useEffect(() => {
    void model.start();
    return () => model.stop();
  }, [model]);
  useEffect(() => bindKeys("run", runKeys()), []);
  useEffect(() => bindKeys("global", { leave: () => leave(model) }), [model]);
  const problem = model.problem.value;
  if (!model.outline.value) {
    if (problem?.status === 404) return <NotFound id={id} />;
    return problem ? <ProblemBox problem={problem} onRetry={() => void model.start()} /> : <Loading />;
  }
  return <Layout model={model} />;
}

function Layout({ model }: { model: RunModel }) {
  const shown = panes.value;
  return (
    <div
      class={`run panes-${shown}${model.isPast.value ? " past" : ""}`}
      data-phone={parameter("tab") ? "panel" : "graph"}
    >
      <RunHeader model={model} />
      <HistorySlider model={model} />
      <div class="run-body">
        <div class="run-left">
          {shown !== "panel" && <GraphPane model={model} />}
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
        <div class="run-inspector" style={{ "--inspector-width": `${inspectorWidth.value}px` }}>
          <Inspector model={model} />
        </div>
      </div>
    </div>
  );
}

function runKeys() {
  const open = (tab: string) => () => setQuery({ tab });
  return {
    ...Object.fromEntries(TABS.map(({ name }) => [name, open(name)])),
    graph: () => setQuery({ tab: null }),
    panes: () => {
      panes.value = NEXT_PANES[panes.value];
    },
  };
}

/** Esc leaves the past first, then the selection. */
function leave(model: RunModel): void {
  if (model.isPast.value) model.backToLatest();
  else if (JSON.stringify(selection.value) !== JSON.stringify(NOTHING)) select({});
}
