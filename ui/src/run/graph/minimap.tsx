/** A large graph in the corner: one shape for all boxes of a tone, and the visible part. */

import type { Graph } from "../../api/types.gen.ts";
import { statusTone } from "../../look/status.tsx";
import type { GraphState } from "./state.ts";
import type { Viewport } from "./viewport.ts";

const [WIDTH, HEIGHT] = [168, 120];

export function Minimap({ port, graph, state }: { port: Viewport; graph: Graph; state: GraphState }) {
  const scale = Math.min(WIDTH / graph.width, HEIGHT / graph.height);
  const { x, y, zoom } = port.view.value;
  const { w, h } = port.size.value;
  const center = (event: PointerEvent) => {
    if (!(event.buttons & 1)) return;
    const box = (event.currentTarget as Element).getBoundingClientRect();
    port.center({ x: (event.clientX - box.left) / scale, y: (event.clientY - box.top) / scale, w: 0, h: 0 });
  };
  return (
    <svg
      class="minimap"
      aria-hidden="true"
      width={graph.width * scale}
      height={graph.height * scale}
      viewBox={`0 0 ${graph.width} ${graph.height}`}
      onPointerDown={center}
      onPointerMove={center}
    >
      {[...shapes(graph, state)].map(([tone, path]) => (
        <path key={tone} class={`tone-${tone}`} d={path} fill="currentColor" />
      ))}
      <rect class="minimap-view" x={-x / zoom} y={-y / zoom} width={w / zoom} height={h / zoom} />
    </svg>
  );
}

function shapes(graph: Graph, { boxes }: GraphState): Map<string, string> {
  const paths = new Map<string, string>();
  for (const { name, x, y, w, h } of graph.nodes) {
    const status = boxes.get(name)?.status ?? "never";
    const tone = status === "never" ? "never" : statusTone(status);
    paths.set(tone, `${paths.get(tone) ?? ""}M${x},${y}h${w}v${h}h${-w}z`);
  }
  return paths;
}
