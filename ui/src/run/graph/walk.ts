/** Where an arrow key leads in a graph: down and up follow the arcs, left and right stay in the row. Pure. */

import type { Graph, GraphNode } from "../../api/types.gen.ts";

export function neighbour(graph: Graph, name: string, key: string): GraphNode | undefined {
  const place = graph.nodes.findIndex((node) => node.name === name);
  const node = graph.nodes[place];
  if (!node) return undefined;
  if (key === "ArrowDown" || key === "ArrowUp") {
    const ends = graph.edges
      .filter((edge) => edge.source !== edge.target)
      .filter((edge) => (key === "ArrowDown" ? edge.source : edge.target) === place)
      .sort((a, b) => Number(a.reversed) - Number(b.reversed));
    const next = ends[0];
    return next && graph.nodes[key === "ArrowDown" ? next.target : next.source];
  }
  const sign = key === "ArrowRight" ? 1 : -1;
  const middle = node.y + node.h / 2;
  return graph.nodes
    .filter((other) => (other.x - node.x) * sign > 0 && other.y < middle && other.y + other.h > middle)
    .sort((a, b) => (a.x - b.x) * sign)[0];
}
