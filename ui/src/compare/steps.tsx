import { useMemo } from "preact/hooks";
import { useResource } from "../api/resource.ts";
import type { Graph, Outline, StepSides } from "../api/types.gen.ts";
import { Status, StatusIcon, statusWord } from "../look/status.tsx";
import { GraphDrawing } from "../parts/graph/drawing.tsx";
import { Empty } from "../parts/states.tsx";
import { href } from "../routes.ts";
import { counted } from "../text/number.ts";
import { duration } from "../text/time.ts";
import type { Runs } from "./page.tsx";

/** Each step of both runs: status, runs, working time, and differences. */
export function StepsTab({ runs, steps, only }: { runs: Runs; steps: StepSides[]; only: boolean }) {
  const [a, b] = [useDurations(runs.a.execution_id), useDurations(runs.b.execution_id)];
  const isSame = runs.a.playbook_id === runs.b.playbook_id;
  const graph = useResource<Graph>(isSame ? `/graphs/${runs.a.playbook_id}?run_row=1` : null).data.value;
  const shown = steps.filter(({ differs }) => !only || differs.length);
  const byName = new Map(steps.map((step) => [step.step, step]));
  return (
    <>
      {shown.length ? (
        <table class="card compare-table">
          <thead>
            <tr>
              <th>Step</th>
              <th>A</th>
              <th>B</th>
              <th>Difference</th>
            </tr>
          </thead>
          <tbody>
            {shown.map(({ step, a: left, b: right, differs }) => (
              <tr key={step}>
                <td>
                  <strong>{step}</strong>
                </td>
                <td>
                  <StepSide side={left} ms={a.get(step)} link={href("run", { id: runs.a.execution_id }, { step })} />
                </td>
                <td>
                  <StepSide side={right} ms={b.get(step)} link={href("run", { id: runs.b.execution_id }, { step })} />
                </td>
                <td class={differs.length ? "differs" : "quiet"}>{differs.join(", ") || "-"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <Empty text="All steps are the same." />
      )}
      {graph && (
        <section class="card compare-graph" aria-label="Graph">
          <p class="secondary">Both runs used this playbook. Each step shows its status in A and in B.</p>
          <GraphDrawing
            graph={graph}
            marked={new Set(steps.filter(({ differs }) => differs.length).map(({ step }) => step))}
            row={(name) => <BothStatuses step={byName.get(name)} />}
          />
        </section>
      )}
    </>
  );
}

function BothStatuses({ step }: { step: StepSides | undefined }) {
  const [a, b] = [statusOf(step?.a ?? null), statusOf(step?.b ?? null)];
  return (
    <span class="compare-both" title={`A ${statusWord(a)}, B ${statusWord(b)}`}>
      A <StatusIcon status={a} /> B <StatusIcon status={b} />
    </span>
  );
}

type StepSide = StepSides["a"];

function statusOf(side: StepSide): string {
  return side ? String(side.status) : "never";
}

function StepSide({ side, ms, link }: { side: StepSide; ms: number | undefined; link: string }) {
  if (!side) return <span class="quiet">-</span>;
  return (
    <a class="compare-step" href={link}>
      <Status status={statusOf(side)} />
      <span class="secondary">
        {counted(Number(side.runs ?? 0), "step run")}
        {ms !== undefined && `, ${duration(ms)}`}
      </span>
    </a>
  );
}

/** Milliseconds from the start to the end of the runs of each step. */
function useDurations(id: string): Map<string, number> {
  const outline = useResource<Outline>(`/executions/${encodeURIComponent(id)}/outline`).data.value;
  return useMemo(() => {
    const sums = new Map<string, number>();
    const runs = outline?.runs;
    runs?.step.forEach((step, row) => {
      const [start, end] = [runs.started_ms[row] ?? -1, runs.ended_ms[row] ?? -1];
      const name = outline?.steps[step];
      if (name && start >= 0 && end >= 0) sums.set(name, (sums.get(name) ?? 0) + end - start);
    });
    return sums;
  }, [outline]);
}
