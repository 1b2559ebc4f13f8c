/** The arcs of a graph: one SVG that does not move while the run does; only its classes change. The graph handles
 *  clicks on them; the inspector lists them for the keyboard. */

import type { Graph, GraphEdge } from "../api/types.gen.ts";
import { count } from "../text/number.ts";
import { oneLine } from "../text/printable.ts";
import { arcKey } from "./graph-state.ts";
import { memo } from "./memo.ts";

const UPRIGHT = 24;

interface ArcsProps {
  graph: Graph;
  fired: ReadonlyMap<string, number>;
  selected: string;
}

export const Arcs = memo(function Arcs({ graph, fired, selected }: ArcsProps) {
  return (
    <>
      <svg class="graph-arcs" width={graph.width} height={graph.height} aria-hidden="true">
        <defs>
          <ArrowHead id="arc-head" />
          <ArrowHead id="arc-head-fired" />
          <ArrowHead id="arc-head-failure" />
          <ArrowHead id="arc-head-selected" />
        </defs>
        {graph.nodes.map((node) => node.entry && <EntryMark key={node.name} x={node.x} y={node.y + 21} />)}
        {graph.edges.map((edge, place) => (
          <Arc key={place} edge={edge} arc={keyOf(graph, edge)} fired={fired} selected={selected} />
        ))}
      </svg>
      {graph.edges.map((edge, place) => (
        <ArcLabel
          key={place}
          edge={edge}
          arc={keyOf(graph, edge)}
          fired={fired}
          selected={selected}
          isUpright={isUpright(graph, edge)}
        />
      ))}
    </>
  );
});

function keyOf(graph: Graph, edge: GraphEdge): string {
  return arcKey(graph.nodes[edge.source]?.name ?? "", edge.arc);
}

/** Whether the line leads straight down, so that there is room beside it. */
function isUpright({ nodes }: Graph, { source, target }: GraphEdge): boolean {
  const [from, to] = [nodes[source], nodes[target]];
  return !!from && !!to && Math.abs(from.x + from.w / 2 - to.x - to.w / 2) < UPRIGHT;
}

interface ArcProps {
  edge: GraphEdge;
  arc: string;
  fired: ReadonlyMap<string, number>;
  selected: string;
}

function look({ edge, arc, fired, selected }: ArcProps): string {
  if (arc === selected) return "selected";
  if (fired.has(arc)) return edge.failure ? "failure fired" : "fired";
  return edge.failure ? "failure" : "";
}

function Arc(props: ArcProps) {
  const { edge, arc } = props;
  const kind = look(props);
  const head = kind.split(" ")[0];
  return (
    <g class={`arc ${kind}`} data-arc={arc}>
      <path class="arc-line" d={edge.path} marker-end={`url(#arc-head${head ? `-${head}` : ""})`} />
      <path class="arc-target" d={edge.path}>
        <title>{edge.guard ? `when ${edge.guard}` : "always"}</title>
      </path>
    </g>
  );
}

/** The guard, and how often the arc has fired. */
function ArcLabel(props: ArcProps & { isUpright: boolean }) {
  const { edge, arc, fired } = props;
  const times = fired.get(arc);
  if (!edge.label && !times) return null;
  const isBeside = !edge.label && props.isUpright;
  return (
    <span
      class={`arc-label ${look(props)}${isBeside ? " bare" : ""}`}
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
