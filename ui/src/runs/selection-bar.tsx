import { type Signal, useSignal } from "@preact/signals";
import { get, withQuery } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { ExecutionCounts, ExecutionPage } from "../api/types.gen.ts";
import { go } from "../location.ts";
import { Button } from "../parts/button.tsx";
import { later } from "../parts/lazy.tsx";
import { toastProblem } from "../parts/toast.tsx";
import { href } from "../routes.ts";
import { count } from "../text/number.ts";
import type { BulkAction } from "./bulk.ts";
import { countsQuery, type Filters, listQuery } from "./filters.ts";

const BulkDialog = later("bulkDialog", null);
const MAX_RUNS = 1000;

/** What can be done with the selected runs. */
export function SelectionBar({
  selected,
  filters,
  at,
  reload,
}: {
  selected: Signal<ReadonlySet<string>>;
  filters: Filters;
  at: number;
  reload: () => void;
}) {
  const dialog = useSignal<BulkAction | null>(null);
  const ids = [...selected.value];
  const [a, b] = ids;
  return (
    <div class="selection-bar" role="toolbar" aria-label="Selected runs">
      <strong>{count(ids.length)} selected</strong>
      <MatchingButton selected={selected} filters={filters} at={at} />
      <Button
        reason={ids.length === 2 ? null : "Select two runs to compare them."}
        onClick={() => a && b && go(href("compare", { a, b }))}
      >
        Compare
      </Button>
      <Button
        role="operator"
        onClick={() => {
          dialog.value = "retry";
        }}
      >
        Retry...
      </Button>
      <Button
        role="operator"
        kind="danger"
        onClick={() => {
          dialog.value = "cancel";
        }}
      >
        Cancel...
      </Button>
      <Button
        kind="quiet"
        onClick={() => {
          selected.value = new Set();
        }}
      >
        Clear
      </Button>
      {dialog.value && (
        <BulkDialog
          action={dialog.value}
          ids={ids}
          onClose={() => {
            dialog.value = null;
          }}
          onDone={(failed) => {
            selected.value = new Set(failed);
            reload();
          }}
        />
      )}
    </div>
  );
}

/** "Select all 18 matching runs": also those that are not loaded. */
function MatchingButton({
  selected,
  filters,
  at,
}: {
  selected: Signal<ReadonlySet<string>>;
  filters: Filters;
  at: number;
}) {
  const busy = useSignal(false);
  const counts = useResource<ExecutionCounts>(withQuery("/executions/counts", countsQuery(filters, at)));
  const isCounted = !filters.q && !filters.waits && !filters.until;
  const statuses = Object.entries(counts.data.value ?? {}).filter(
    ([status]) => !filters.statuses.length || filters.statuses.includes(status),
  );
  const total = statuses.reduce((sum, [, number]) => sum + (number ?? 0), 0);
  if (isCounted && total <= selected.value.size) return null;
  const selectAll = async () => {
    busy.value = true;
    try {
      selected.value = new Set(await matchingIds(filters, at));
    } catch (error) {
      toastProblem("The runs were not selected", error);
    } finally {
      busy.value = false;
    }
  };
  return (
    <Button kind="quiet" busy={busy.value} onClick={() => void selectAll()}>
      {isCounted ? `Select all ${count(Math.min(total, MAX_RUNS))} matching runs` : "Select all matching runs"}
    </Button>
  );
}

async function matchingIds(filters: Filters, at: number): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | null = "";
  while (cursor !== null && ids.length < MAX_RUNS) {
    const page: ExecutionPage = await get<ExecutionPage>("/executions", {
      query: { ...listQuery(filters, at), cursor },
    });
    ids.push(...page.items.map((run) => run.execution_id));
    cursor = page.next;
  }
  return ids.slice(0, MAX_RUNS);
}
