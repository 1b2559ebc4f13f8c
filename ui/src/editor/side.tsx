import type { Finding, GraphNode } from "../api/types.gen.ts";
import { GraphDrawing } from "../parts/graph/drawing.tsx";
import { Empty } from "../parts/states.tsx";
import type { EditorModel } from "./model.ts";

/** The graph of the text: the step of the cursor is selected, the path of a problem is marked. */
export function GraphSide({
  model,
  line,
  active,
  width,
  onStep,
}: {
  model: EditorModel;
  line: number;
  active: Finding | undefined;
  width: number | null;
  onStep: (node: GraphNode) => void;
}) {
  const { graph, validity } = model.validation;
  const drawn = graph.value;
  const paths = active ? active.path : (validity.value?.problems.flatMap(({ path }) => path) ?? []);
  return (
    <section class="editor-graph" aria-label="Graph" style={width === null ? {} : { width: `${width}px` }}>
      {drawn ? (
        <>
          {validity.value?.valid === false && <p class="editor-outdated">The graph shows the last valid text.</p>}
          <GraphDrawing graph={drawn} selected={stepAt(drawn.nodes, line)} marked={new Set(paths)} onStep={onStep} />
        </>
      ) : (
        <Empty text="The graph appears when the playbook has no errors." />
      )}
    </section>
  );
}

/** The step whose text has the line: the last one that begins before it. */
function stepAt(nodes: GraphNode[], line: number): string {
  let step: GraphNode | undefined;
  for (const node of nodes)
    if (node.role === "step" && node.line <= line && node.line >= (step?.line ?? 0)) step = node;
  return step?.name ?? "";
}
