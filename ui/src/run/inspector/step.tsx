/** A step: its only run, the list of its runs, or why it has not run. */

import { useMemo } from "preact/hooks";
import { parameter } from "../../location.ts";
import { Tabs } from "../../parts/tabs.tsx";
import { counted } from "../../text/number.ts";
import { exactStates } from "../graph/state.ts";
import type { RunModel } from "../model.ts";
import { type StepState, stepStates } from "../outline/outline.ts";
import { selection } from "../selection.ts";
import { ArcList } from "./arc-list.tsx";
import { Heading } from "./heading.tsx";
import type { InspectorProps } from "./inspector.tsx";
import { openPart } from "./inspector-part.ts";
import { StepRunInspector } from "./step-run.tsx";
import { runName, StepRunList } from "./step-run-list.tsx";
import { Why } from "./why.tsx";

export function StepInspector({ model, graph }: InspectorProps) {
  const { step, run, item } = selection.value;
  const state = stepStateAt(model, step);
  const only = useMemo(() => (state?.runs === 1 ? runName(model, step) : ""), [model, step, state?.runs]);
  if (run || only)
    return (
      <StepRunInspector key={`${run || only} ${item}`} model={model} graph={graph} run={run || only} item={item} />
    );
  const node = graph?.nodes.find(({ name }) => name === step);
  const part = parameter("part") || (state?.runs ? "runs" : "why");
  const shown = part === "runs" && state?.runs ? "runs" : "why";
  return (
    <>
      <Heading title={step} status={state?.status ?? "never"}>
        {node?.description && <span>{node.description}</span>}
      </Heading>
      {state && state.runs > 0 && (
        <Tabs
          label={`Parts of ${step}`}
          active={shown}
          tabs={[
            { name: "runs", label: "Step runs", count: state.runs },
            { name: "why", label: "Why" },
          ]}
          onChoose={openPart}
        />
      )}
      {shown === "runs" ? (
        <StepRunList model={model} step={step} label={counted(state?.runs ?? 0, "step run")} />
      ) : (
        <>
          <Why model={model} subject={{ step }} marked={step} />
          <ArcList model={model} graph={graph} step={step} />
        </>
      )}
    </>
  );
}

/** The state of a step at the event of the view. */
export function stepStateAt(model: RunModel, step: string): StepState | undefined {
  const [state, outline, at] = [model.state.value, model.outline.value, model.at.value];
  if (state?.seq === at) return exactStates(state).get(step);
  return outline && stepStates(outline, at).get(step);
}
