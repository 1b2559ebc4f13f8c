import { useEffect, useRef } from "preact/hooks";
import type { Graph } from "../../api/types.gen.ts";
import { arcKey, keyOfEdge } from "../../parts/graph/arcs.tsx";
import type { RunModel } from "../model.ts";
import type { Viewport } from "./viewport.ts";

const [DOT_MS, MOST_PER_SECOND] = [200, 10];

/** A dot moves along an arc when it fires in a run that is watched live. */
export function FiringDots({ model, graph, port }: { model: RunModel; graph: Graph; port: Viewport }) {
  const layer = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const isCalm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (isCalm) return;
    const paths = new Map(graph.edges.map((edge) => [keyOfEdge(graph, edge), edge.path]));
    let recent: number[] = [];
    return model.frame.subscribe((frame) => {
      if (!frame || model.isPast.peek()) return;
      for (const { step, arc } of frame.outline.arcs ?? []) {
        const path = paths.get(arcKey(step, arc));
        recent = recent.filter((time) => time > performance.now() - 1000);
        if (!path || !layer.current || recent.length >= MOST_PER_SECOND) continue;
        recent.push(performance.now());
        run(layer.current, path, port);
      }
    });
  }, [model, graph, port]);
  return <div ref={layer} class="firing-dots" aria-hidden="true" />;
}

function run(layer: HTMLElement, path: string, port: Viewport): void {
  const { x, y, zoom } = port.view.peek();
  layer.style.transform = `translate(${x}px, ${y}px) scale(${zoom})`;
  const dot = document.createElement("i");
  dot.style.offsetPath = `path("${path}")`;
  layer.append(dot);
  const motion = dot.animate([{ offsetDistance: "0%" }, { offsetDistance: "100%" }], DOT_MS);
  motion.onfinish = () => dot.remove();
  motion.oncancel = () => dot.remove();
}
