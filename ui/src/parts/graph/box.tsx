/** A step of a graph: a box of the size that the server computed, with its name, badges and tasks. */

import type { ComponentChildren } from "preact";
import type { GraphNode } from "../../api/types.gen.ts";
import "./graph.css";

/** How much of a graph is drawn: less at a distance. */
export type Detail = "full" | "names" | "shapes";

interface GraphBoxProps {
  node: GraphNode;
  kind: string; // classes
  detail?: Detail;
  label?: string; // read by screen readers instead of the content
  note?: ComponentChildren; // beside the name
  children?: ComponentChildren; // below the tasks
  isSelected?: boolean;
  isTabStop?: boolean;
  onSelect?: (() => void) | undefined; // without it the box is no button
}

export function GraphBox(props: GraphBoxProps) {
  const { node, isSelected, isTabStop = true, onSelect } = props;
  const look = {
    class: ["box", node.role === "step" ? "" : "unreal", isSelected ? "selected" : "", props.kind].join(" "),
    style: { transform: `translate(${node.x}px, ${node.y}px)`, width: `${node.w}px`, height: `${node.h}px` },
    title: node.description || undefined,
  };
  if (!onSelect)
    return (
      <div {...look}>
        <BoxContent {...props} />
      </div>
    );
  return (
    <button
      type="button"
      {...look}
      data-step={node.name}
      aria-pressed={isSelected}
      tabIndex={isTabStop ? 0 : -1}
      onClick={onSelect}
    >
      <BoxContent {...props} />
    </button>
  );
}

function BoxContent({ node, detail = "full", label, note, children }: GraphBoxProps) {
  const isHidden = label ? true : undefined;
  return (
    <>
      {label && <span class="hidden-text">{label}</span>}
      {detail !== "shapes" && (
        <span class="box-name" aria-hidden={isHidden}>
          <span class="cut">{node.name}</span> {note}
        </span>
      )}
      {detail === "full" && node.badges.length > 0 && (
        <span class="box-badges" aria-hidden={isHidden}>
          {node.badges.map((badge) => (
            <small key={badge.text} title={badge.title}>
              {badge.text}
            </small>
          ))}
        </span>
      )}
      {detail === "full" && node.tasks.length > 0 && (
        <span class="box-tasks" aria-hidden={isHidden}>
          {node.tasks.map((task) => (
            <span key={`${task.label} ${task.line}`} class="cut" style={{ paddingInlineStart: `${task.depth * 10}px` }}>
              {task.label} <i>{task.kind}</i>
              {task.note && ` ${task.note}`}
            </span>
          ))}
        </span>
      )}
      {children}
    </>
  );
}
