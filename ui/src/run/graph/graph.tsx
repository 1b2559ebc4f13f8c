/** The graph of the playbook in force at the event of the view, with the state of the run in it. */

import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { type Resource, useResource } from "../../api/resource.ts";
import type { Graph, GraphNode } from "../../api/types.gen.ts";
import { useKeys } from "../../keys.ts";
import { isPhone } from "../../look/phone.ts";
import { Button } from "../../parts/button.tsx";
import { Arcs } from "../../parts/graph/arcs.tsx";
import { Loaded } from "../../parts/states.tsx";
import { offerActions } from "../../shell/palette-state.ts";
import type { RunModel } from "../model.ts";
import { select, selection } from "../selection.ts";
import { ArcShapes } from "./arc-shapes.tsx";
import { RunBox } from "./boxes.tsx";
import { FindStep } from "./find.tsx";
import { followPointers } from "./gestures.ts";
import { Minimap } from "./minimap.tsx";
import { FiringDots } from "./motion.tsx";
import { type GraphState, graphState } from "./state.ts";
import { edgesNear, overlaps, Viewport } from "./viewport.ts";
import { neighbour } from "./walk.ts";
import "./pane.css";

const MANY = 30; // boxes

export function useGraph(model: RunModel): Resource<Graph> {
  const digest = digestAt(model);
  return useResource<Graph>(digest ? `/graphs/${digest}?run_row=1` : null);
}

export function GraphPane({ model, graph }: { model: RunModel; graph: Resource<Graph> }) {
  return (
    <section class="graph" aria-label="Graph">
      <Loaded of={graph}>{(data) => <Drawing key={digestAt(model)} model={model} graph={data} />}</Loaded>
    </section>
  );
}

/** The playbook in force at the event of the view: a fork can change it. */
function digestAt(model: RunModel): string | null {
  let digest: string | null = null;
  for (const [seq, hash] of model.outline.value?.digests ?? [])
    if (Number(seq) <= model.at.value || digest === null) digest = String(hash);
  return digest;
}

function Drawing({ model, graph }: { model: RunModel; graph: Graph }) {
  const port = useMemo(() => new Viewport(graph), []);
  const pane = useRef<HTMLDivElement>(null);
  const state = useComputed(() => graphState(model, graph));
  const isFinding = useSignal(false);
  const isMeasured = useComputed(() => port.size.value.w > 0);
  useEffect(() => {
    const element = pane.current;
    if (!element) return;
    const observer = new ResizeObserver(() => {
      const isFirst = !port.size.peek().w;
      port.size.value = { w: element.clientWidth, h: element.clientHeight };
      const selected = graph.nodes.find(({ name }) => name === selection.peek().step);
      if (isFirst && element.clientWidth) port.open(focusOf(graph, state.peek()));
      else if (selected) port.reveal(selected);
    });
    observer.observe(element);
    const stop = followPointers(element, port);
    return () => {
      observer.disconnect();
      stop();
    };
  }, [port, graph, state]);
  const show = (node: GraphNode) => {
    port.reveal(node);
    select({ step: node.name });
    window.requestAnimationFrame(() => focusBox(pane.current, node));
  };
  useKeys(
    "graph",
    {
      "zoom-in": port.zoomIn,
      "zoom-out": port.zoomOut,
      "zoom-reset": port.reset,
      "zoom-fit": port.fit,
      "find-step": () => {
        isFinding.value = true;
      },
    },
    [port, isFinding],
  );
  useEffect(
    () =>
      offerActions("steps", () =>
        graph.nodes.map((node) => ({ label: `Step ${node.name}`, hint: "select in the graph", run: () => show(node) })),
      ),
    [graph],
  );
  return (
    <div class={`graph-pane detail-${port.detail.value}`}>
      <div
        ref={pane}
        class="graph-view"
        role="group"
        aria-label="Steps"
        onClick={selectArc}
        onKeyDown={(event) => followArcs(event, graph, pane.current, port)}
      >
        {/* Before its size is known, it would be drawn in another place, and a zoom would be lost. */}
        {isMeasured.value && <World port={port} graph={graph} state={state.value} />}
        <FiringDots model={model} graph={graph} port={port} />
      </div>
      <div class="graph-tools">
        <Button
          kind="quiet"
          icon="search"
          label="Find a step (s)"
          onClick={() => {
            isFinding.value = !isFinding.value;
          }}
        />
        {!isPhone.value && (
          <>
            <Button kind="quiet" icon="plus" label="Zoom in (+)" onClick={port.zoomIn} />
            <Button kind="quiet" icon="minus" label="Zoom out (-)" onClick={port.zoomOut} />
          </>
        )}
        <Button kind="quiet" icon="fit" label="Fit the window (f)" onClick={port.fit} />
      </div>
      {isFinding.value && (
        <FindStep
          nodes={graph.nodes}
          onChoose={show}
          onClose={() => {
            isFinding.value = false;
          }}
        />
      )}
      {graph.nodes.length > MANY && <Minimap port={port} graph={graph} state={state.value} />}
    </div>
  );
}

/** Everything that is zoomed and moved. Only boxes near the visible part are rendered. */
function World({ port, graph, state }: { port: Viewport; graph: Graph; state: GraphState }) {
  const world = useRef<HTMLDivElement>(null);
  useEffect(
    () =>
      port.view.subscribe(({ x, y, zoom }) => {
        if (world.current) world.current.style.transform = `translate(${x}px, ${y}px) scale(${zoom})`;
      }),
    [port],
  );
  const { step, arc } = selection.value;
  const [region, detail] = [port.region.value, port.detail.value];
  const fired = useStable(state.fired);
  const edges = useMemo(() => edgesNear(graph, region), [graph, region]);
  const shown = graph.nodes.filter((node) => node.name === step || overlaps(node, region));
  const tabStop = shown.some(({ name }) => name === step) ? step : shown[0]?.name;
  return (
    <div ref={world} class="graph-world" style={{ width: `${graph.width}px`, height: `${graph.height}px` }}>
      {detail === "shapes" ? (
        <ArcShapes graph={graph} fired={fired} />
      ) : (
        <Arcs graph={graph} edges={edges} fired={fired} selected={arc} hasLabels={detail === "full"} />
      )}
      {shown.map((node) => (
        <RunBox
          key={node.name}
          node={node}
          state={state.boxes.get(node.name)}
          detail={detail}
          isSelected={node.name === step && !arc}
          isTabStop={node.name === tabStop}
          onSelect={() => select({ step: node.name })}
        />
      ))}
    </div>
  );
}

/** The same map as long as its entries are the same, so that arcs are drawn again only when one fires. */
function useStable(map: ReadonlyMap<string, number>): ReadonlyMap<string, number> {
  const last = useRef(map);
  const isSame = last.current.size === map.size && [...map].every(([key, value]) => last.current.get(key) === value);
  if (!isSame) last.current = map;
  return last.current;
}

/** The box at which a large graph opens: the selection, else an active step, else the entry. */
function focusOf(graph: Graph, { boxes }: GraphState): GraphNode | undefined {
  const statusOf = (node: GraphNode) => boxes.get(node.name)?.status;
  return (
    graph.nodes.find(({ name }) => name === selection.peek().step) ??
    graph.nodes.find((node) => ["running", "waiting", "failed"].includes(statusOf(node) ?? "")) ??
    graph.nodes.find(({ entry }) => entry)
  );
}

function selectArc(event: MouseEvent): void {
  const arc = (event.target as Element).closest("[data-arc]")?.getAttribute("data-arc");
  if (arc) select({ arc });
}

function followArcs(event: KeyboardEvent, graph: Graph, pane: HTMLElement | null, port: Viewport): void {
  const name = (event.target as HTMLElement).dataset?.step;
  if (!name || !event.key.startsWith("Arrow") || event.shiftKey || event.ctrlKey || event.altKey) return;
  event.preventDefault();
  event.stopPropagation();
  const node = neighbour(graph, name, event.key);
  if (!node) return;
  port.reveal(node);
  window.requestAnimationFrame(() => focusBox(pane, node));
}

function focusBox(pane: HTMLElement | null, node: GraphNode): void {
  pane?.querySelector<HTMLElement>(`[data-step="${CSS.escape(node.name)}"]`)?.focus({ preventScroll: true });
}
