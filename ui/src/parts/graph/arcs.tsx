/** The arcs of a graph: one SVG that does not move while a run does; only its classes change. The graph of a run
 *  handles clicks on them; its inspector lists them for the keyboard. */

import type { Graph, GraphEdge } from "../../api/types.gen.ts";
import { count } from "../../text/number.ts";
import { oneLine } from "../../text/printable.ts";
import { memo } from "../memo.ts";
import "./graph.css";

const UPRIGHT = 24;

interface ArcsProps {
  graph: Graph;
  edges: readonly GraphEdge[]; // those to draw
  fired?: ReadonlyMap<string, number>; // how often, by key
  selected?: string; // the key of an arc
  marked?: ReadonlySet<string> | undefined; // keys of arcs on the path of a problem
  hasLabels?: boolean;
}

/** Names an arc in URLs and answers: STEP/next/0. */
export const arcKey = (step: string, arc: number): string => `${step}/next/${arc}`;

export const keyOfEdge = ({ nodes }: Graph, { source, arc }: GraphEdge): string =>
  arcKey(nodes[source]?.name ?? "", arc);

export const Arcs = memo(function Arcs({ graph, edges, fired, selected, marked, hasLabels = true }: ArcsProps) {
  const arcs = edges.map((edge) => {
    const arc = keyOfEdge(graph, edge);
    const times = fired?.get(arc);
    const chosen = arc === selected ? "selected" : marked?.has(arc) ? "marked" : "";
    const kinds = chosen ? [chosen] : [edge.failure ? "failure" : "", times ? "fired" : ""];
    return { edge, arc, times, kinds: kinds.filter(Boolean) };
  });
  return (
    <>
      <svg class="graph-arcs" width={graph.width} height={graph.height} aria-hidden="true">
        <defs>
          {["", "-fired", "-failure", "-selected", "-marked"].map((kind) => (
            <ArrowHead key={kind} id={`arc-head${kind}`} />
          ))}
        </defs>
        {graph.nodes.map((node) => node.entry && <EntryMark key={node.name} x={node.x} y={node.y + 21} />)}
        {arcs.map((props) => (
          <Arc key={props.edge.path} {...props} />
        ))}
      </svg>
      {hasLabels &&
        arcs.map((props) => <ArcLabel key={props.edge.path} {...props} isUpright={isUpright(graph, props.edge)} />)}
    </>
  );
});

/** Whether the line leads straight down, so that there is room beside it. */
function isUpright({ nodes }: Graph, { source, target }: GraphEdge): boolean {
  const [from, to] = [nodes[source], nodes[target]];
  return !!from && !!to && Math.abs(from.x + from.w / 2 - to.x - to.w / 2) < UPRIGHT;
}

interface ArcProps {
  edge: GraphEdge;
  arc: string;
  times: number | undefined; // how often it has fired
  kinds: string[];
}

function Arc({ edge, arc, kinds }: ArcProps) {
  return (
    <g class={`arc ${kinds.join(" ")}`} data-arc={arc}>
      <path class="arc-line" d={edge.path} marker-end={`url(#arc-head${kinds[0] ? `-${kinds[0]}` : ""})`} />
      <path class="arc-target" d={edge.path}>
        <title>{edge.guard ? `when ${edge.guard}` : "always"}</title>
      </path>
    </g>
  );
}

/** The guard, and how often the arc has fired. */
function ArcLabel({ edge, arc, times, kinds, isUpright }: ArcProps & { isUpright: boolean }) {
  if (!edge.label && !times) return null;
  const isBeside = !edge.label && isUpright;
  return (
    <span
      class={`arc-label ${kinds.join(" ")}${isBeside ? " bare" : ""}`}
      style={{
        transform: `translate(${edge.label_x}px, ${edge.label_y}px) translate(${isBeside ? "4px" : "-50%"}, -50%)`,
      }}
      title={edge.guard ? `when ${edge.guard}` : ""}
      data-arc={arc}
      aria-hidden="true"
    >
      {edge.label && <code>{oneLine(edge.label)}</code>}
      {times && <strong>×{count(times)}</strong>}
    </span>
  );
}

function ArrowHead({ id }: { id: string }) {
  return (
    <marker
      id={id}
      viewBox="0 0 10 10"
      refX="9"
      refY="5"
      markerWidth="9"
      markerHeight="9"
      markerUnits="userSpaceOnUse"
      orient="auto"
    >
      <path class={id} d="M0,1 L10,5 L0,9 Z" />
    </marker>
  );
}

function EntryMark({ x, y }: { x: number; y: number }) {
  return (
    <g class="arc entry">
      <circle cx={x - 28} cy={y} r="4" />
      <path class="arc-line" d={`M${x - 24},${y} H${x - 1}`} marker-end="url(#arc-head)" />
    </g>
  );
}
