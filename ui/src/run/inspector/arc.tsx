import type { Graph, GraphEdge } from "../../api/types.gen.ts";
import { Copy } from "../../parts/copy.tsx";
import { arcKey } from "../../parts/graph/arcs.tsx";
import { counted } from "../../text/number.ts";
import { duration } from "../../text/time.ts";
import type { RunModel } from "../model.ts";
import { firedArcs } from "../outline/outline.ts";
import { PlaybookLink } from "../playbook-link.tsx";
import { ArcName } from "./arc-name.tsx";
import { Heading } from "./heading.tsx";
import type { InspectorProps } from "./inspector.tsx";
import { SelectLink } from "./select-link.tsx";
import { Why } from "./why.tsx";

/** An arc: its guard, how often it fired, and why. */
export function ArcInspector({ model, graph, arc }: InspectorProps & { arc: string }) {
  const edge = graph && edgeOf(graph, arc);
  const [from, to] = [arc.slice(0, arc.lastIndexOf("/next/")), edge ? nameOf(graph, edge.target) : ""];
  return (
    <>
      <Heading title={to ? <ArcName from={from} to={to} /> : arc}>
        <SelectLink step={from}>{from}</SelectLink>
        {to && <SelectLink step={to}>{to}</SelectLink>}
        {edge && <ArcFacts model={model} edge={edge} />}
      </Heading>
      {edge?.guard && (
        <div class="arc-guard guard">
          <code>{edge.guard}</code>
          <Copy text={edge.guard} what="the guard" />
        </div>
      )}
      {edge?.arc === -1 ? (
        <div class="padded">
          This line is the next step of a branch; the decisions about {from} say why it was taken.
        </div>
      ) : (
        <Why model={model} subject={{ arc }} marked={to} state={firedText(model, from, edge, to)} />
      )}
    </>
  );
}

function ArcFacts({ model, edge }: { model: RunModel; edge: GraphEdge }) {
  return (
    <>
      {edge.failure && <span>for failures</span>}
      {edge.delay !== null && <span>delays its token by {duration(edge.delay * 1000)}</span>}
      {edge.line > 0 && (
        <PlaybookLink model={model} line={edge.line}>
          line {edge.line}
        </PlaybookLink>
      )}
    </>
  );
}

function firedText(model: RunModel, step: string, edge: GraphEdge | undefined, target: string): string {
  const outline = model.outline.value;
  if (!outline || !edge) return "";
  const times = firedArcs(outline, model.at.value, [{ step, arc: edge.arc, target }]).get(arcKey(step, edge.arc)) ?? 0;
  return times ? `This arc has fired ${counted(times, "time")}.` : "This arc has not fired.";
}

function edgeOf(graph: Graph, arc: string): GraphEdge | undefined {
  return graph.edges.find((edge) => arcKey(nameOf(graph, edge.source), edge.arc) === arc);
}

function nameOf(graph: Graph, place: number): string {
  return graph.nodes[place]?.name ?? "";
}
