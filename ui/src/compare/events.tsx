import { useMemo } from "preact/hooks";
import { withQuery } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { EventSides, Row } from "../api/types.gen.ts";
import { parameter, setQuery } from "../location.ts";
import { Button } from "../parts/button.tsx";
import { withTimes } from "../parts/moment.tsx";
import { Loaded } from "../parts/states.tsx";
import { href } from "../routes.ts";
import { whole } from "../run/selection.ts";
import { type DiffRow, lineDiff } from "../text/line-diff.ts";
import { count } from "../text/number.ts";
import { oneLine } from "../text/printable.ts";
import type { Runs } from "./page.tsx";

const BEFORE = 10;
const PAGE = 100;

type RowPage = { items: Row[]; next: number | null };

/** Events of both runs, those of the same subject beside each other. */
export function EventsTab({ runs, first, only }: { runs: Runs; first: EventSides | null; only: boolean }) {
  const fork = runs.b.forked_from ?? runs.a.forked_from;
  const from = Math.max(1, whole(parameter("event")) || (first?.a_seq ?? first?.b_seq ?? fork?.seq ?? 1) - BEFORE);
  const [a, b] = [useEvents(runs.a.execution_id, from), useEvents(runs.b.execution_id, from)];
  const move = (seq: number) => setQuery({ event: Math.max(1, seq) });
  return (
    <>
      <div class="compare-moves">
        <Button onClick={() => move(from - PAGE)} reason={from <= 1 ? "This is the first event." : null}>
          Earlier
        </Button>
        <span class="secondary">from event {count(from)}</span>
        <Button
          onClick={() => move(from + PAGE)}
          reason={a.data.value?.next === null && b.data.value?.next === null ? "These are the last events." : null}
        >
          Later
        </Button>
      </div>
      <Loaded of={a}>
        {(left) => (
          <Loaded of={b}>
            {(right) => <Table runs={runs} a={left.items} b={right.items} only={only} first={first} />}
          </Loaded>
        )}
      </Loaded>
    </>
  );
}

function useEvents(id: string, from: number) {
  const query = { view: "row", after: from - 1, limit: PAGE };
  return useResource<RowPage>(withQuery(`/executions/${encodeURIComponent(id)}/events`, query));
}

const keyOf = ([, , type, entity, status, summary]: Row) => JSON.stringify([type, entity, status, plain(summary)]);

/** A summary without the times and workers, which do not count. */
function plain(summary: string): string {
  return summary.replace(/\d{4}-\S+Z|\d+(\.\d+)? ?(ms|s|min|h|d)\b/g, "").replace(/Leased to .+/, "Leased");
}

interface TableProps {
  runs: Runs;
  a: Row[];
  b: Row[];
  only: boolean;
  first: EventSides | null; // the first events that differ, even where the rows do not
}

function Table({ runs, a, b, only, first }: TableProps) {
  const rows = useMemo(() => {
    const aligned = lineDiff(a.map(keyOf), b.map(keyOf));
    const isFirst = (row: DiffRow) =>
      row.kind === "same" && rowOf(a, row.a)?.[0] === first?.a_seq && rowOf(b, row.b)?.[0] === first?.b_seq;
    return aligned.map((row): DiffRow => (isFirst(row) ? { ...row, kind: "changed" } : row));
  }, [a, b, first]);
  const shown = rows.filter(({ kind }) => !only || kind !== "same");
  if (!shown.length) return <p class="secondary">These events are the same in both runs.</p>;
  return (
    <table class="card compare-table compare-events">
      <thead>
        <tr>
          <th>A</th>
          <th>B</th>
        </tr>
      </thead>
      <tbody>
        {shown.map((row) => (
          <tr key={`${row.a}/${row.b}`} class={row.kind}>
            <Cell row={rowOf(a, row.a)} kind={row.kind} id={runs.a.execution_id} />
            <Cell row={rowOf(b, row.b)} kind={row.kind} id={runs.b.execution_id} />
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function rowOf(rows: Row[], place: number | null): Row | undefined {
  return place === null ? undefined : rows[place - 1];
}

function Cell({ row, kind, id }: { row: Row | undefined; kind: DiffRow["kind"]; id: string }) {
  if (!row) return <td class="none" />;
  const [seq, , type, entity, , summary] = row;
  return (
    <td class={kind === "same" ? "" : "differs"}>
      <a href={href("run", { id }, { at: seq, event: seq, tab: "events" })}>{count(seq)}</a> <code>{type}</code>{" "}
      {oneLine(entity)} <span class="secondary">{withTimes(summary)}</span>
    </td>
  );
}
