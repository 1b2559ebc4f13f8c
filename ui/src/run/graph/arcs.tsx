/** The arcs of a graph: one SVG that does not move while the run does; only its classes change. The graph handles
 *  clicks on them; the inspector lists them for the keyboard. */

import type { Graph, GraphEdge } from "../../api/types.gen.ts";
import { memo } from "../../parts/memo.ts";
import { count } from "../../text/number.ts";
import { oneLine } from "../../text/printable.ts";
import { arcKey } from "./state.ts";
import { type Detail, overlaps, type Rect } from "./viewport.ts";

const UPRIGHT = 24;

interface ArcsProps {
  graph: Graph;
  fired: ReadonlyMap<string, number>;
  selected: string;
  region: Rect; // what is near the window
  detail: Detail;
}

export const Arcs = memo(function Arcs({ graph, fired, selected, region, detail }: ArcsProps) {
  if (detail === "shapes") return <ArcShapes graph={graph} fired={fired} />;
  const edges = graph.edges.filter((edge) => isNear(graph, edge, region));
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
        {edges.map((edge) => (
          <Arc key={edge.path} edge={edge} arc={keyOf(graph, edge)} fired={fired} selected={selected} />
        ))}
      </svg>
      {detail === "full" &&
        edges.map((edge) => (
          <ArcLabel
            key={edge.path}
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

/** Whether a line may be in the region: it stays between its boxes, but for loops and lines that lead back. */
function isNear({ nodes }: Graph, { source, target, reversed }: GraphEdge, region: Rect): boolean {
  const [from, to] = [nodes[source], nodes[target]];
  if (!from || !to || reversed || source === target) return true;
  const [x, y] = [Math.min(from.x, to.x), Math.min(from.y, to.y)];
  const [right, bottom] = [Math.max(from.x + from.w, to.x + to.w), Math.max(from.y + from.h, to.y + to.h)];
  return overlaps({ x, y, w: right - x, h: bottom - y }, region);
}

/** From afar: one shape for the arcs that have fired, and one for the others. */
function ArcShapes({ graph, fired }: { graph: Graph; fired: ReadonlyMap<string, number> }) {
  const paths = { fired: "", rest: "" };
  for (const edge of graph.edges) paths[fired.has(keyOf(graph, edge)) ? "fired" : "rest"] += edge.path;
  return (
    <svg class="graph-arcs" width={graph.width} height={graph.height} aria-hidden="true">
      <g class="arc">
        <path class="arc-line" d={paths.rest} />
      </g>
      <g class="arc fired">
        <path class="arc-line" d={paths.fired} />
      </g>
    </svg>
  );
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
