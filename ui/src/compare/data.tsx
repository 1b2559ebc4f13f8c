import { useMemo } from "preact/hooks";
import { useResource } from "../api/resource.ts";
import type { ExecutionDiff, State } from "../api/types.gen.ts";
import { Empty, Loaded } from "../parts/states.tsx";
import { jsonLine } from "../text/json-line.ts";
import { counted } from "../text/number.ts";
import { oneLine } from "../text/printable.ts";
import type { Runs } from "./page.tsx";
import { MAX_ROWS, type ValueRow, valueRows } from "./value-rows.ts";

/** workload, ctx, result and error of both runs, leaf by leaf. */
export function DataTab({ runs, diff, only }: { runs: Runs; diff: ExecutionDiff; only: boolean }) {
  const [a, b] = [useWorkload(runs.a.execution_id), useWorkload(runs.b.execution_id)];
  return (
    <Loaded of={a}>
      {(left) => <Loaded of={b}>{(right) => <Table left={left} right={right} diff={diff} only={only} />}</Loaded>}
    </Loaded>
  );
}

const useWorkload = (id: string) =>
  useResource<State>(`/executions/${encodeURIComponent(id)}/state?parts=workload,ctx`);

function Table({ left, right, diff, only }: { left: State; right: State; diff: ExecutionDiff; only: boolean }) {
  const rows = useMemo(
    () => [
      ...valueRows("workload", left.workload ?? {}, right.workload ?? {}),
      ...valueRows("ctx", left.ctx ?? {}, right.ctx ?? {}),
      ...valueRows("result", diff.result.a, diff.result.b),
      ...valueRows("error", diff.error.a, diff.error.b),
    ],
    [left, right, diff],
  );
  const shown = rows.filter(({ differs }) => differs || !only);
  if (!shown.length) return <Empty text="The data of both runs is the same." />;
  return (
    <>
      <table class="card compare-table compare-data">
        <thead>
          <tr>
            <th>Path</th>
            <th>A</th>
            <th>B</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((row) => (
            <DataRow key={row.path} row={row} />
          ))}
        </tbody>
      </table>
      {rows.length >= MAX_ROWS && <p class="secondary">Only the first {counted(MAX_ROWS, "value")} are compared.</p>}
    </>
  );
}

function DataRow({ row: { path, a, b, differs } }: { row: ValueRow }) {
  return (
    <tr>
      <td>
        <code>{oneLine(path)}</code>
      </td>
      {[a, b].map((value, side) => (
        <td key={side === 0 ? "a" : "b"} class={differs ? "differs" : ""}>
          {value === undefined ? <span class="quiet">not set</span> : <code>{jsonLine(value)}</code>}
        </td>
      ))}
    </tr>
  );
}
