/** The graph of a playbook: HTML boxes over an SVG of arcs, at the places that the server computed. */

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Graph, GraphNode } from "../api/types.gen.ts";
import { oneLine } from "../text/printable.ts";
import "./graph-drawing.css";

interface GraphDrawingProps {
  graph: Graph;
  selected?: string; // the name of a step
  marked?: ReadonlySet<string>; // steps that a problem or a difference is about
  note?: (step: string) => ComponentChildren; // beside the name
  onStep?: (node: GraphNode) => void;
}

export function GraphDrawing({ graph, selected, marked, note, onStep }: GraphDrawingProps) {
  const box = useRef<HTMLDivElement>(null);
  const [scale, setScale] = useState(1);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const fit = () => setScale(Math.min(1, Math.max(0.5, (element.clientWidth - 2) / graph.width)));
    fit();
    const observer = new ResizeObserver(fit);
    observer.observe(element);
    return () => observer.disconnect();
  }, [graph.width]);
  return (
    <div ref={box} class="graph-drawing">
      <div class="graph-size" style={{ width: `${graph.width * scale}px`, height: `${graph.height * scale}px` }}>
        <div
          class="graph-canvas"
          style={{ width: `${graph.width}px`, height: `${graph.height}px`, transform: `scale(${scale})` }}
          role="group"
          aria-label={`Graph of ${graph.name}`}
        >
          <Arcs graph={graph} />
          {graph.nodes.map((node) => (
            <Box
              key={node.name}
              node={node}
              state={`${node.name === selected ? " selected" : ""}${marked?.has(node.name) ? " marked" : ""}`}
              note={note?.(node.name)}
              onStep={onStep}
            />
          ))}
        </div>
      </div>
    </div>
  );
}

function Arcs({ graph }: { graph: Graph }) {
  return (
    <svg width={graph.width} height={graph.height} aria-hidden="true">
      <defs>
        {["arc", "failure"].map((kind) => (
          <marker
            key={kind}
            id={`tip-${kind}`}
            class={kind}
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="8"
            markerHeight="8"
            orient="auto-start-reverse"
          >
            <path d="M0 0.5L8 4L0 7.5z" />
          </marker>
        ))}
      </defs>
      {graph.nodes.map(
        (node) =>
          node.entry && (
            <circle key={node.name} class="entry" cx={node.x - 12} cy={node.y + 18} r="4">
              <title>entry</title>
            </circle>
          ),
      )}
      {graph.edges.map((edge) => (
        <path
          key={`${edge.source}/${edge.arc}/${edge.target}`}
          class={edge.failure ? "edge failure" : "edge"}
          d={edge.path}
          marker-end={`url(#tip-${edge.failure ? "failure" : "arc"})`}
        />
      ))}
      {graph.edges.map(
        (edge) =>
          edge.label && (
            <text key={`${edge.source}/${edge.arc}/${edge.target}`} x={edge.label_x} y={edge.label_y + 4}>
              {oneLine(edge.label)}
              <title>{edge.guard}</title>
            </text>
          ),
      )}
    </svg>
  );
}

function Box({
  node,
  state,
  note,
  onStep,
}: {
  node: GraphNode;
  state: string;
  note: ComponentChildren;
  onStep: GraphDrawingProps["onStep"];
}) {
  const content = (
    <>
      <span class="graph-name">
        <span class="cut">{node.name}</span> {note}
      </span>
      {node.badges.length > 0 && (
        <span class="graph-badges">
          {node.badges.map((badge) => (
            <span key={badge.text} title={badge.title}>
              {badge.text}
            </span>
          ))}
        </span>
      )}
      {node.tasks.map((task) => (
        <span key={task.label} class="graph-task cut">
          {task.label} <span class="quiet">{task.kind}</span>
        </span>
      ))}
    </>
  );
  const place = { left: `${node.x}px`, top: `${node.y}px`, width: `${node.w}px`, height: `${node.h}px` };
  const title = node.description || undefined;
  return onStep ? (
    <button
      type="button"
      class={`graph-box ${node.role}${state}`}
      style={place}
      title={title}
      aria-pressed={state.includes("selected")}
      onClick={() => onStep(node)}
    >
      {content}
    </button>
  ) : (
    <div class={`graph-box ${node.role}${state}`} style={place} title={title}>
      {content}
    </div>
  );
}
