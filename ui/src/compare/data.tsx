import { useMemo } from "preact/hooks";
import { useResource } from "../api/resource.ts";
import type { ExecutionDiff, State } from "../api/types.gen.ts";
import { Empty, Loaded } from "../parts/states.tsx";
import { type LeafPair, leafPairs, MAX_PAIRS } from "../text/diff.ts";
import { jsonLine } from "../text/json-line.ts";
import { counted } from "../text/number.ts";
import { oneLine } from "../text/printable.ts";
import type { Runs } from "./page.tsx";

/** workload, ctx, result and error of both runs as one tree. */
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
    () =>
      leafPairs(
        { workload: left.workload ?? {}, ctx: left.ctx ?? {}, result: diff.result.a, error: diff.error.a },
        { workload: right.workload ?? {}, ctx: right.ctx ?? {}, result: diff.result.b, error: diff.error.b },
      ),
    [left, right, diff],
  );
  const visible = rows.filter(({ kind }) => kind !== "same" || !only);
  if (!visible.length) return <Empty text="The data of both runs is the same." />;
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
          {visible.map((row, place) => (
            <DataRow key={row.path.join("\n")} {...row} last={visible[place - 1]?.path ?? []} />
          ))}
        </tbody>
      </table>
      {rows.length >= MAX_PAIRS && <p class="secondary">Only the first {counted(MAX_PAIRS, "value")} are compared.</p>}
    </>
  );
}

/** A value of both runs, below the rows of the maps and lists around it, unless the previous row has them. */
function DataRow({ path, kind, before, after, last }: LeafPair & { last: LeafPair["path"] }) {
  const shared = path.findIndex((name, depth) => name !== last[depth]);
  const name = (depth: number) => (
    <td colSpan={depth < path.length - 1 ? 3 : 1} style={{ paddingInlineStart: `${12 + 16 * depth}px` }}>
      <code>{oneLine(String(path[depth]))}</code>
    </td>
  );
  return (
    <>
      {path.slice(shared, -1).map((_, place) => (
        <tr key={place}>{name(shared + place)}</tr>
      ))}
      <tr>
        {name(path.length - 1)}
        {[before, after].map((value, side) => (
          <td key={side === 0 ? "a" : "b"} class={kind === "same" ? "" : "differs"}>
            {value === undefined ? <span class="quiet">not set</span> : <code>{jsonLine(value)}</code>}
          </td>
        ))}
      </tr>
    </>
  );
}
