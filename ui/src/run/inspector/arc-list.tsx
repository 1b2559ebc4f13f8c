import type { Graph, GraphEdge } from "../../api/types.gen.ts";
import { arcKey } from "../../parts/graph/arcs.tsx";
import { count } from "../../text/number.ts";
import type { RunModel } from "../model.ts";
import { firedArcs } from "../outline/outline.ts";
import { select } from "../selection.ts";
import { ArcName } from "./arc-name.tsx";

/** The arcs into and out of a step: those of the graph, reachable by keyboard and screen reader. */
export function ArcList({ model, graph, step }: { model: RunModel; graph: Graph | undefined; step: string }) {
  const place = graph?.nodes.findIndex(({ name }) => name === step) ?? -1;
  if (!graph || place < 0) return null;
  const [leaving, entering] = [
    graph.edges.filter(({ source }) => source === place),
    graph.edges.filter(({ source, target }) => target === place && source !== place),
  ];
  return (
    <>
      {leaving.length > 0 && <Arcs model={model} graph={graph} edges={leaving} title={`Arcs from ${step}`} />}
      {entering.length > 0 && <Arcs model={model} graph={graph} edges={entering} title={`Arcs to ${step}`} />}
    </>
  );
}

function Arcs({ model, graph, edges, title }: { model: RunModel; graph: Graph; edges: GraphEdge[]; title: string }) {
  const outline = model.outline.value;
  const name = (place: number) => graph.nodes[place]?.name ?? "";
  const arcs = edges.map(({ source, target, arc }) => ({ step: name(source), arc, target: name(target) }));
  const fired = outline ? firedArcs(outline, model.at.value, arcs) : new Map<string, number>();
  return (
    <section class="arc-list">
      <h3>{title}</h3>
      <ul>
        {edges.map((edge, place) => {
          const arc = arcKey(name(edge.source), edge.arc);
          const times = fired.get(arc) ?? 0;
          return (
            <li key={place}>
              <button type="button" class={times ? "fired" : ""} onClick={() => select({ arc })}>
                <ArcName from={name(edge.source)} to={name(edge.target)} />
                <span class={times ? "" : "quiet"}>{times ? `fired ${count(times)}×` : "not fired"}</span>
                {edge.guard && <code class="cut">{edge.guard}</code>}
              </button>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
