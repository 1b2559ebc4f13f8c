/** The graph of a playbook, scaled to the width of its place. */

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Graph, GraphNode } from "../../api/types.gen.ts";
import { Arcs } from "./arcs.tsx";
import { GraphBox } from "./box.tsx";

interface GraphDrawingProps {
  graph: Graph;
  selected?: string; // the name of a step
  marked?: ReadonlySet<string>; // steps that a problem or a difference is about
  markedArcs?: ReadonlySet<string>; // keys of arcs between them
  note?: (step: string) => ComponentChildren; // beside the name
  row?: (step: string) => ComponentChildren; // in the extra row of a graph that has it
  onStep?: (node: GraphNode) => void;
}

export function GraphDrawing({ graph, selected, marked, markedArcs, note, row, onStep }: GraphDrawingProps) {
  const place = useRef<HTMLDivElement>(null);
  const [scale, setScale] = useState(1);
  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return;
    const fit = () => setScale(Math.min(1, Math.max(0.5, (element.clientWidth - 2) / graph.width)));
    fit();
    const observer = new ResizeObserver(fit);
    observer.observe(element);
    return () => observer.disconnect();
  }, [graph.width]);
  return (
    <div ref={place} class="graph-drawing">
      <div
        class="graph-size"
        style={{ width: `${graph.width * scale}px`, height: `${graph.height * scale}px` }}
        role="group"
        aria-label={`Graph of ${graph.name}`}
      >
        <div
          class="graph-world"
          style={{ width: `${graph.width}px`, height: `${graph.height}px`, transform: `scale(${scale})` }}
        >
          <Arcs graph={graph} edges={graph.edges} marked={markedArcs} />
          {graph.nodes.map((node) => (
            <GraphBox
              key={node.name}
              node={node}
              kind={marked?.has(node.name) ? "marked" : ""}
              note={note?.(node.name)}
              isSelected={node.name === selected}
              onSelect={onStep && (() => onStep(node))}
            >
              {row && <span class="box-run">{row(node.name)}</span>}
            </GraphBox>
          ))}
        </div>
      </div>
    </div>
  );
}
