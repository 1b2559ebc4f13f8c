import type { Finding, Graph, GraphNode } from "../api/types.gen.ts";
import { Icon } from "../look/icons.tsx";
import { keyOfEdge } from "../parts/graph/arcs.tsx";
import { GraphDrawing } from "../parts/graph/drawing.tsx";
import { Empty } from "../parts/states.tsx";
import type { EditorModel } from "./model.ts";

/** The graph of the text: the step at the cursor is selected, the path of the selected problem or of all is marked. */
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
  const problems = (active ? [active] : (validity.value?.problems ?? [])).filter(({ path }) => path.length);
  return (
    <section class="editor-graph" aria-label="Graph" style={width === null ? {} : { width: `${width}px` }}>
      {drawn ? (
        <>
          {validity.value?.valid === false && <p class="editor-outdated">The graph shows the last valid text.</p>}
          <GraphDrawing
            graph={drawn}
            selected={stepAt(drawn.nodes, line)}
            marked={new Set(problems.flatMap(({ path }) => path))}
            markedArcs={new Set(problems.flatMap(({ path }) => arcsWithin(drawn, path)))}
            note={(step) => <ProblemMark problems={problems.filter(({ path }) => path.includes(step))} />}
            onStep={onStep}
          />
        </>
      ) : (
        <Empty text="The graph appears when the playbook has no errors." />
      )}
    </section>
  );
}

/** The keys of the arcs from one step of a path to another. */
function arcsWithin(graph: Graph, path: string[]): string[] {
  const isOnPath = (node: number) => path.includes(graph.nodes[node]?.name ?? "");
  return graph.edges
    .filter(({ source, target }) => isOnPath(source) && isOnPath(target))
    .map((edge) => keyOfEdge(graph, edge));
}

function ProblemMark({ problems }: { problems: Finding[] }) {
  if (!problems.length) return null;
  const codes = [...new Set(problems.map(({ code }) => code))].join(", ");
  return (
    <span class="editor-mark" title={`On the path of ${codes}`}>
      <Icon name="warning" />
      <span class="hidden-text">on the path of {codes}</span>
    </span>
  );
}

/** The step whose text has the line: the last one that begins before it. */
function stepAt(nodes: GraphNode[], line: number): string {
  let step: GraphNode | undefined;
  for (const node of nodes)
    if (node.role === "step" && node.line <= line && node.line >= (step?.line ?? 0)) step = node;
  return step?.name ?? "";
}
