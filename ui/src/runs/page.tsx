/** The list of runs. */

import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo } from "preact/hooks";
import type { ExecutionSummary } from "../api/types.gen.ts";
import { now } from "../clock.ts";
import { useKeys } from "../keys.ts";
import { go, parameter, query, setQuery } from "../location.ts";
import { isPhone } from "../look/phone.ts";
import { Button, LinkButton } from "../parts/button.tsx";
import { List } from "../parts/list.tsx";
import { Empty, Loading, ProblemBox } from "../parts/states.tsx";
import { href } from "../routes.ts";
import { counted } from "../text/number.ts";
import { Attention } from "./attention.tsx";
import { clearFilters, FilterBar } from "./filter-bar.tsx";
import { type Filters, filtersOf, isFiltered, listQuery } from "./filters.ts";
import { RunsModel } from "./model.ts";
import { Preview } from "./preview.tsx";
import { NarrowRow, WideRow } from "./row.tsx";
import { range } from "./rows.ts";
import { SelectionBar } from "./selection-bar.tsx";
import "./runs.css";

export default function RunsPage() {
  const filters = filtersOf(query.value);
  const key = JSON.stringify(filters);
  const at = useMemo(() => now.peek(), [key]);
  const model = useMemo(() => new RunsModel(() => listQuery(filters, now.peek())), [key]);
  const selected = useSignal<ReadonlySet<string>>(new Set());
  useEffect(() => {
    void model.start();
    return model.stop;
  }, [model]);
  const preview = parameter("preview");
  return (
    <div class="page runs">
      <header>
        <h1>Runs</h1>
        <LinkButton href={href("playbooks")} kind="primary">
          Start a run...
        </LinkButton>
      </header>
      <Attention />
      <FilterBar filters={filters} at={at} />
      <div class="runs-body">
        <RunsList model={model} filters={filters} selected={selected} />
        {preview && <Preview key={preview} id={preview} />}
      </div>
      {selected.value.size > 0 && (
        <SelectionBar selected={selected} filters={filters} at={at} reload={() => void model.reload()} />
      )}
    </div>
  );
}

type SelectedRuns = Signal<ReadonlySet<string>>;

function RunsList({ model, filters, selected }: { model: RunsModel; filters: Filters; selected: SelectedRuns }) {
  const active = useSignal("");
  const anchor = useSignal("");
  const rows = model.rows.value;
  // The functions below read what is current, not what was when they were made: keys come faster than frames.
  const current = () => model.rows.peek() ?? [];
  const placeOf = (id: string) => current().findIndex((row) => row.execution_id === id);
  const open = (run: ExecutionSummary | undefined) => run && go(href("run", { id: run.execution_id }));
  const select = (id: string, isRange: boolean) => {
    const next = new Set(selected.peek());
    if (isRange && anchor.peek()) for (const row of range(current(), anchor.peek(), id)) next.add(row);
    else if (!next.delete(id)) next.add(id);
    anchor.value = id;
    selected.value = next;
  };
  const move = (to: number) => {
    const run = current()[Math.max(0, Math.min(current().length - 1, to))];
    if (run) active.value = run.execution_id;
    if (run && parameter("preview")) setQuery({ preview: run.execution_id }, { replace: true });
  };
  useLayoutEffect(model.remember, [rows]); // with the DOM: a key of the run view may follow at once
  useKeys(
    "lists",
    {
      "next-row": () => move(placeOf(active.peek()) + 1),
      "previous-row": () => move(placeOf(active.peek()) - 1),
      "first-row": () => move(0),
      "last-row": () => move(current().length - 1),
      open: () => open(current()[placeOf(active.peek())]),
      preview: () => setQuery({ preview: parameter("preview") === active.peek() ? null : active.peek() }),
      select: (event) => active.peek() && select(active.peek(), event.shiftKey),
      "failures-first": () => setQuery({ status: parameter("status") === "failed" ? null : "failed" }),
    },
    [model],
  );
  useKeys("global", { leave: () => leave(selected) }, []);
  if (!rows)
    return model.problem.value ? (
      <ProblemBox problem={model.problem.value} onRetry={model.reload} />
    ) : (
      <Loading rows={12} onCancel={model.cancel} />
    );
  if (!rows.length) return <NoRuns filters={filters} />;
  return (
    <div class="runs-list card">
      {model.fresh.value > 0 && (
        <div class="fresh">
          <Button onClick={() => void model.reload()}>{counted(model.fresh.value, "new run")}</Button>
        </div>
      )}
      <List
        label="Runs"
        total={rows.length}
        rowHeight={isPhone.value ? 76 : 40}
        active={placeOf(active.value)}
        columns={isPhone.value ? undefined : <Columns />}
        rowKey={(row) => rows[row]?.execution_id ?? row}
        onActive={move}
        onOpen={(row, event) => (event.type === "keydown" ? open(rows[row]) : undefined)}
        onWindow={model.show}
      >
        {(row) => {
          const run = rows[row];
          if (!run) return null;
          if (isPhone.value) return <NarrowRow run={run} />;
          return (
            <WideRow
              run={run}
              selected={selected.value.has(run.execution_id)}
              onSelect={(isRange) => select(run.execution_id, isRange)}
            />
          );
        }}
      </List>
    </div>
  );
}

/** Escape closes the preview, then clears the selection. */
function leave(selected: SelectedRuns): void {
  if (parameter("preview")) setQuery({ preview: null });
  else if (selected.peek().size) selected.value = new Set();
}

function Columns() {
  return (
    <div class="runs-row" aria-hidden="true">
      <span />
      <span>Status</span>
      <span>Playbook</span>
      <span>Activity</span>
      <span>Started</span>
      <span>Duration</span>
      <span>Trigger</span>
    </div>
  );
}

function NoRuns({ filters }: { filters: Filters }) {
  if (isFiltered(filters))
    return (
      <Empty text="No runs match these filters.">
        <Button onClick={clearFilters}>Clear filters</Button>
      </Empty>
    );
  return (
    <Empty text="No runs yet.">
      <LinkButton href={href("playbooks")} kind="primary">
        Start a run
      </LinkButton>
      <code>noetl exec PATH</code>
    </Empty>
  );
}
