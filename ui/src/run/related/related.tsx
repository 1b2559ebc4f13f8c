/** Runs that belong to this one: parent, children, fork source and forks. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { get } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import type { Execution, ExecutionSummary, Related as RelatedRuns } from "../../api/types.gen.ts";
import { now } from "../../clock.ts";
import { Status } from "../../look/status.tsx";
import { Button } from "../../parts/button.tsx";
import { Elapsed, Moment } from "../../parts/moment.tsx";
import { Empty, Loaded } from "../../parts/states.tsx";
import { toastProblem } from "../../parts/toast.tsx";
import { href } from "../../routes.ts";
import { activityText } from "../../text/activity.ts";
import { count, shortId } from "../../text/number.ts";
import type { RunModel } from "../model.ts";
import type { PanelProps } from "../panel/panel.tsx";
import "./related.css";

const REFRESH_MS = 5_000;
const PAGE = 50;

export default function Related({ model }: PanelProps) {
  const related = useResource<RelatedRuns>(model.path(`related?limit=${PAGE}`), () =>
    model.hasEnded.peek() ? null : REFRESH_MS,
  );
  return (
    <div class="panel-content related">
      <Loaded of={related}>{(runs) => <RelatedTree model={model} runs={runs} />}</Loaded>
    </div>
  );
}

function RelatedTree({ model, runs }: { model: RunModel; runs: RelatedRuns }) {
  const { parent, source, children, forks } = runs;
  const details = model.details.value;
  const forkedFrom = details?.forked_from;
  if (!parent && !source && !forkedFrom && !children.items.length && !forks.length)
    return <Empty text="This run has no parent, no children and no forks." />;
  const own = (
    <li class="related-self">
      <div class="related-row">
        <Status status={model.outline.value?.status ?? ""} />
        <strong class="cut">{details?.name}</strong>
        <span class="secondary">this run</span>
      </div>
      <ul>
        {children.items.length > 0 && (
          <Group label="Children" total={details?.children ?? children.items.length}>
            <Children model={model} runs={runs} />
          </Group>
        )}
        {forks.length > 0 && (
          <Group label="Forks" total={details?.forks ?? forks.length}>
            {forks.map((fork) => (
              <Fork key={fork.execution_id} run={fork} source={model.id} />
            ))}
          </Group>
        )}
      </ul>
    </li>
  );
  return (
    <ul class="related-tree">
      {parent && (
        <Run run={parent} note="parent">
          {!source && own}
        </Run>
      )}
      {source && (
        <Run
          run={source}
          note={sourceNote(forkedFrom?.seq, forkedFrom?.reason)}
          compare={[source.execution_id, model.id]}
          at={forkedFrom?.seq}
        >
          {own}
        </Run>
      )}
      {!parent && !source && own}
    </ul>
  );
}

function sourceNote(seq: number | undefined, reason: string | undefined): string {
  const verb = reason === "retry" ? "retried" : "forked";
  return seq ? `${verb} at event ${count(seq)}` : "";
}

function Group({ label, total, children }: { label: string; total: number; children: ComponentChildren }) {
  return (
    <li>
      <h2>
        {label} {count(total)}
      </h2>
      <ul>{children}</ul>
    </li>
  );
}

interface RunProps {
  run: ExecutionSummary;
  note?: string;
  at?: number | undefined;
  compare?: [a: string, b: string];
  children?: ComponentChildren;
}

function Run({ run, note, at, compare, children }: RunProps) {
  const id = run.execution_id;
  return (
    <li>
      <div class="related-row">
        <Status status={run.status} />
        <a class="cut" href={href("run", { id }, { at: at ?? null })}>
          {run.name || run.path}
        </a>
        <span class="mono quiet" title={id}>
          {shortId(id)}
        </span>
        {note && <span class="secondary">{note}</span>}
        <span class="related-activity cut secondary">{activityText(run, now.value)}</span>
        <span class="related-when secondary">
          <Moment at={run.started} />, <Elapsed from={run.started} to={run.ended} />
        </span>
        {compare && <a href={href("compare", { a: compare[0], b: compare[1] })}>Compare</a>}
      </div>
      {children && <ul>{children}</ul>}
    </li>
  );
}

/** A fork, with the event at which it was made, which only its details have. */
function Fork({ run, source }: { run: ExecutionSummary; source: string }) {
  const details = useResource<Execution>(`/executions/${encodeURIComponent(run.execution_id)}`);
  const point = details.data.value?.forked_from;
  return <Run run={run} note={sourceNote(point?.seq, point?.reason)} compare={[source, run.execution_id]} />;
}

/** The first page is reloaded while the run goes on; further ones are added on request. */
function Children({ model, runs }: { model: RunModel; runs: RelatedRuns }) {
  const more = useSignal<ExecutionSummary[]>([]);
  const next = useSignal<string | null | undefined>(undefined);
  const cursor = next.value === undefined ? runs.children.next : next.value;
  const load = async () => {
    try {
      const page = await get<RelatedRuns>(model.path("related"), { query: { after: cursor, limit: PAGE } });
      more.value = [...more.peek(), ...page.children.items];
      next.value = page.children.next;
    } catch (error) {
      toastProblem("The children were not loaded", error);
    }
  };
  return (
    <>
      {[...runs.children.items, ...more.value].map((child) => (
        <Run key={child.execution_id} run={child} />
      ))}
      {cursor && (
        <li>
          <Button onClick={() => void load()}>Show more children</Button>
        </li>
      )}
    </>
  );
}
