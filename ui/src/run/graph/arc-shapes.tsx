import type { Graph } from "../../api/types.gen.ts";
import { keyOfEdge } from "../../parts/graph/arcs.tsx";

/** Arcs from afar: one shape for those that have fired, and one for the others. */
export function ArcShapes({ graph, fired }: { graph: Graph; fired: ReadonlyMap<string, number> }) {
  const paths = { fired: "", rest: "" };
  for (const edge of graph.edges) paths[fired.has(keyOfEdge(graph, edge)) ? "fired" : "rest"] += edge.path;
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
