/** The items of a loop: counts, failures in groups, durations, and every item. */

import { useMemo } from "preact/hooks";
import type { ItemStatus, ItemsSummary } from "../../api/types.gen.ts";
import { useKeys } from "../../keys.ts";
import { parameter, setQuery } from "../../location.ts";
import { isPhone } from "../../look/phone.ts";
import { statusWord } from "../../look/status.tsx";
import { Button } from "../../parts/button.tsx";
import { Select } from "../../parts/field.tsx";
import { Empty } from "../../parts/states.tsx";
import { count } from "../../text/number.ts";
import { Followed, useFollowing } from "../inspector/following.tsx";
import type { RunModel } from "../model.ts";
import { scheduledSeq } from "../outline/outline.ts";
import type { PanelProps } from "../panel/panel.tsx";
import { select, selection } from "../selection.ts";
import { countOf, ItemList } from "./list.tsx";
import { RetryItems } from "./retry.tsx";
import { ItemsFigures } from "./summary.tsx";
import "./items.css";

export default function Items({ model }: PanelProps) {
  const loops = model.outline.value?.loops ?? [];
  const chosen = loops.find(({ run }) => run === selection.value.run);
  const ofStep = loops.findLast(({ run }) => run.slice(0, run.lastIndexOf("#")) === selection.value.step);
  const loop = chosen ?? ofStep ?? loops.at(-1);
  if (!loop) return <Empty text="This run has no loop so far." />;
  return <LoopItems key={loop.run} model={model} run={loop.run} runs={loops.map(({ run }) => run)} />;
}

function LoopItems({ model, run, runs }: { model: RunModel; run: string; runs: string[] }) {
  const scheduled = scheduledSeq(model.outline.value, run);
  const summary = useFollowing<ItemsSummary>(model, "items/summary", { run }, scheduled || 1);
  const status = statusOf(parameter("status"));
  useKeys("lists", { "failures-first": toggleFailures }, []);
  const loops = useMemo(() => runs.toReversed().map((name) => ({ value: name, label: name })), [runs.join()]);
  if (scheduled > model.at.value) return <Empty text={`At this event ${run} is not scheduled yet.`} />;
  return (
    <div class="panel-content">
      <Followed by={summary}>
        {(figures) => (
          <>
            <div class="panel-bar">
              {runs.length > 1 && (
                <Select label="Loop" value={run} options={loops} onChange={(name) => select({ run: name })} />
              )}
              <StatusChips figures={figures} status={status} />
              <GoTo run={run} total={figures.total} />
              {figures.failed > 0 && summary.past === null && (
                <RetryItems model={model} run={run} failed={figures.failed} />
              )}
            </div>
            <div class="items-body">
              <ItemsFigures figures={figures} run={run} />
              <ItemList
                key={`${status} ${parameter("q")} ${summary.past}`}
                model={model}
                run={run}
                figures={figures}
                status={status}
                q={parameter("q")}
              />
            </div>
          </>
        )}
      </Followed>
    </div>
  );
}

const STATUSES: readonly ItemStatus[] = ["failed", "running", "waiting", "ok", "pending"];

function statusOf(text: string): ItemStatus | "" {
  return STATUSES.find((status) => status === text) ?? "";
}

/** F shows the failed items, and all again. */
function toggleFailures(): void {
  setQuery({ status: parameter("status") === "failed" ? null : "failed" });
}

function StatusChips({ figures, status }: { figures: ItemsSummary; status: string }) {
  return (
    <fieldset aria-label="Status of items">
      <Button kind="quiet" pressed={!status} onClick={() => setQuery({ status: null })}>
        {`all ${count(figures.total)}`}
      </Button>
      {STATUSES.filter((name) => countOf(figures, name) > 0 || name === status || name === "failed").map((name) => (
        <Button
          key={name}
          kind="quiet"
          pressed={name === status}
          label={name === "failed" ? "failed (F)" : name}
          onClick={() => setQuery({ status: name === status ? null : name })}
        >
          {`${statusWord(name)} ${count(countOf(figures, name))}`}
        </Button>
      ))}
    </fieldset>
  );
}

function GoTo({ run, total }: { run: string; total: number }) {
  return (
    <input
      class="input items-index"
      type="number"
      min={0}
      max={total - 1}
      aria-label="Go to the item with this index"
      placeholder={isPhone.value ? "Index" : "Go to index"}
      onChange={(event) => {
        const index = Number(event.currentTarget.value);
        if (event.currentTarget.value === "" || index >= total || index < 0) return;
        setQuery({ status: null, q: null }, { replace: true });
        select({ run, item: index });
      }}
    />
  );
}
