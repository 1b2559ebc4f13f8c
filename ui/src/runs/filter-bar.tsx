import { useSignal } from "@preact/signals";
import { withQuery } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { ExecutionCounts, PlaybookPage } from "../api/types.gen.ts";
import { setQuery } from "../location.ts";
import { isPhone } from "../look/phone.ts";
import { StatusIcon } from "../look/status.tsx";
import { Button } from "../parts/button.tsx";
import { Select } from "../parts/field.tsx";
import { count } from "../text/number.ts";
import { countsQuery, type Filters, PERIODS, periodOf, STATUSES, toggled, WAITS } from "./filters.ts";

const ALWAYS_SHOWN = new Set<string>(["running", "waiting", "failed"]);
const countsEvery = () => 5_000;

export function FilterBar({ filters, at }: { filters: Filters; at: number }) {
  const counts = useResource<ExecutionCounts>(withQuery("/executions/counts", countsQuery(filters, at)), countsEvery);
  const playbooks = useResource<PlaybookPage>("/playbooks?limit=200");
  const paths = (playbooks.data.value?.items ?? []).map(({ path }) => path);
  if (filters.playbook && !paths.includes(filters.playbook)) paths.unshift(filters.playbook);
  const more = useSignal(Boolean(filters.q || filters.playbook || filters.waits || filters.children));
  const periods = PERIODS.map(({ value, label }) => ({ value, label }));
  const period = periodOf(filters);
  if (!periods.some(({ value }) => value === period)) periods.push({ value: period, label: period });
  return (
    <div class="filters" role="search" aria-label="Filters">
      {isPhone.value ? (
        <StatusSelect filters={filters} />
      ) : (
        <StatusChips filters={filters} counts={counts.data.value} />
      )}
      <Select label="Started" value={period} options={periods} onChange={(since) => setQuery({ since, until: null })} />
      {isPhone.value && (
        <Button
          pressed={more.value}
          onClick={() => {
            more.value = !more.value;
          }}
        >
          Filters
        </Button>
      )}
      {(!isPhone.value || more.value) && <MoreFilters filters={filters} paths={paths} />}
    </div>
  );
}

/** The filters that a phone shows on request. */
function MoreFilters({ filters, paths }: { filters: Filters; paths: string[] }) {
  return (
    <>
      <Select
        label="Playbook"
        value={filters.playbook}
        options={[{ value: "", label: "all playbooks" }, ...paths.map((path) => ({ value: path, label: path }))]}
        onChange={(playbook) => setQuery({ playbook })}
      />
      <Select
        label="Waits for"
        value={filters.waits}
        options={[{ value: "", label: "any wait" }, ...WAITS.map((wait) => ({ value: wait, label: `waits: ${wait}` }))]}
        onChange={(waits) => setQuery({ waits })}
      />
      <label class="check">
        <input
          type="checkbox"
          checked={filters.children}
          onChange={(event) => setQuery({ children: event.currentTarget.checked ? 1 : null })}
        />
        children
      </label>
      <input
        data-filter
        class="input"
        type="search"
        aria-label="Filter by text"
        placeholder="Filter"
        value={filters.q}
        onInput={(event) => setQuery({ q: event.currentTarget.value }, { replace: true })}
        onKeyDown={(event) => {
          if (event.key === "Escape") event.currentTarget.blur();
        }}
      />
    </>
  );
}

function StatusChips({ filters, counts }: { filters: Filters; counts: ExecutionCounts | undefined }) {
  const shown = STATUSES.filter(
    (status) => ALWAYS_SHOWN.has(status) || filters.statuses.includes(status) || counts?.[status],
  );
  return (
    <div class="chips" role="group" aria-label="Status">
      <button
        type="button"
        class="chip"
        aria-pressed={!filters.statuses.length}
        onClick={() => setQuery({ status: null })}
      >
        All
      </button>
      {shown.map((status) => (
        <button
          key={status}
          type="button"
          class="chip"
          aria-pressed={filters.statuses.includes(status)}
          onClick={() => setQuery({ status: toggled(filters.statuses, status) })}
        >
          <StatusIcon status={status} />
          {status} <span class="secondary">{count(counts?.[status])}</span>
        </button>
      ))}
    </div>
  );
}

/** Selects one status; several statuses of a link are one more option. */
function StatusSelect({ filters }: { filters: Filters }) {
  const value = filters.statuses.join(",");
  return (
    <Select
      label="Status"
      value={value}
      options={[{ value: "", label: "all statuses" }, ...STATUSES, ...(filters.statuses.length > 1 ? [value] : [])]}
      onChange={(status) => setQuery({ status })}
    />
  );
}

export function clearFilters(): void {
  setQuery({ status: null, playbook: null, since: null, until: null, waits: null, q: null });
}
