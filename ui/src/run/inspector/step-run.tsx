/** One step run, or one item of its loop, in parts. */

import type { StepRun } from "../../api/types.gen.ts";
import { now } from "../../clock.ts";
import { parameter, setQuery } from "../../location.ts";
import { Button } from "../../parts/button.tsx";
import { ProgressBar } from "../../parts/progress.tsx";
import { Empty } from "../../parts/states.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { Value } from "../../parts/value.tsx";
import { href } from "../../routes.ts";
import { count, counted, shortId } from "../../text/number.ts";
import { duration, millis } from "../../text/time.ts";
import type { RunModel } from "../model.ts";
import { parkedRuns, runStatusAt, scheduledSeq } from "../outline/outline.ts";
import { selection, stepOf } from "../selection.ts";
import { ArcList } from "./arc-list.tsx";
import { ErrorBox } from "./error-box.tsx";
import { Followed, useFollowing } from "./following.tsx";
import { Heading } from "./heading.tsx";
import { Inputs } from "./inputs.tsx";
import type { InspectorProps } from "./inspector.tsx";
import { openPart } from "./inspector-part.ts";
import { LogTail } from "./log-tail.tsx";
import { SelectLink } from "./select-link.tsx";
import { stepStateAt } from "./step.tsx";
import { Tasks } from "./tasks.tsx";
import { isWord, Why } from "./why.tsx";
import { Writes } from "./writes.tsx";

const PARTS = [
  { name: "why", label: "Why" },
  { name: "result", label: "Result" },
  { name: "tasks", label: "Tasks" },
  { name: "writes", label: "Writes" },
  { name: "logs", label: "Logs" },
  { name: "inputs", label: "Inputs" },
  { name: "raw", label: "Raw" },
];

interface StepRunProps extends InspectorProps {
  run: string;
  item: number | null;
}

export function StepRunInspector({ model, graph, run, item }: StepRunProps) {
  const scheduled = scheduledSeq(model.outline.value, run);
  const isThere = scheduled <= model.at.value;
  const stepRun = useFollowing<StepRun>(model, "step-run", isThere ? { run, item } : null, scheduled || 1);
  const wanted = parameter("part");
  const first = selection.value.task ? "tasks" : "why";
  const part = PARTS.some(({ name }) => name === wanted) ? wanted : first;
  const step = stepOf(run);
  const node = graph?.nodes.find(({ name }) => name === step);
  const status = statusOf(model, stepRun.data, run, item);
  const name = item === null ? run : `${run}, item ${count(item)}`;
  return (
    <>
      <Heading title={name} status={status}>
        {node?.description && <span class="description">{node.description}</span>}
        <Facts model={model} stepRun={stepRun.data} run={run} item={item} />
      </Heading>
      <Tabs label={`Parts of ${run}`} tabs={PARTS} active={part} onChoose={openPart} />
      <div class="inspector-part" role="tabpanel" aria-label={part}>
        {part === "why" ? (
          <>
            <Why
              model={model}
              subject={{ step, run, item }}
              state={status ? `${name} ${isWord(status)}.` : undefined}
            />
            {item === null && <ArcList model={model} graph={graph} step={step} />}
          </>
        ) : part === "logs" ? (
          <LogTail model={model} run={run} item={item} />
        ) : isThere ? (
          <Followed by={stepRun}>{(data) => <Part model={model} data={data} part={part} />}</Followed>
        ) : (
          <Empty text={`At this event ${run} is not scheduled yet.`} />
        )}
      </div>
    </>
  );
}

function Part({ model, data, part }: { model: RunModel; data: StepRun; part: string }) {
  if (part === "result") return <Result data={data} />;
  if (part === "tasks") return <Tasks model={model} data={data} />;
  if (part === "writes") return <Writes model={model} data={data} />;
  if (part === "inputs") return <Inputs model={model} data={data} />;
  return (
    <div class="padded">
      <Value value={data} label={`Raw data of ${data.run}`} prefix="" />
    </div>
  );
}

/** The status at the event of the view, empty until it is loaded; while the slider moves, it is that of the outline. */
function statusOf(model: RunModel, data: StepRun | undefined, run: string, item: number | null): string {
  const [outline, at, state] = [model.outline.value, model.at.value, model.state.value];
  const active = state?.seq === at && item === null ? state.runs?.find((other) => other.run === run) : null;
  if (active) return active.status; // only the state knows that all items of a loop wait
  if (item === null && outline?.runs) {
    const { runs } = outline;
    const row = runs.step.findIndex((step, place) => `${outline.steps[step]}#${runs.n[place]}` === run);
    if (row >= 0 && runs.scheduled_seq[row]! <= at)
      return runStatusAt(runs, row, at, outline.seq, parkedRuns(outline.parked, at));
  }
  return data?.status ?? "";
}

function Facts({
  model,
  stepRun,
  run,
  item,
}: {
  model: RunModel;
  stepRun: StepRun | undefined;
  run: string;
  item: number | null;
}) {
  const step = stepOf(run);
  const runs = stepStateAt(model, step)?.runs ?? 0;
  const lease = stepRun?.leases.at(-1);
  return (
    <>
      {item !== null && <SelectLink run={run}>{run}</SelectLink>}
      {runs > 1 && (
        <SelectLink step={step}>
          all {counted(runs, "step run")} of {step}
        </SelectLink>
      )}
      {stepRun && (
        <>
          <span>
            worked {duration(stepRun.worked_ms)}, waited {duration(stepRun.waited_ms + openWaitMs(model, stepRun))}
          </span>
          {lease && <span>worker {lease.worker}</span>}
          {stepRun.children.map((id) => (
            <a key={id} href={href("run", { id })}>
              child run {shortId(id)}
            </a>
          ))}
          {stepRun.loop && item === null && <LoopFacts loop={stepRun.loop} />}
        </>
      )}
    </>
  );
}

/** The duration of the current wait; for a past event only ended waits are known. */
function openWaitMs(model: RunModel, { waiting_since }: StepRun): number {
  const since = model.isPast.value ? null : millis(waiting_since);
  return since === null ? 0 : Math.max(0, now.value - since);
}

function LoopFacts({ loop }: { loop: NonNullable<StepRun["loop"]> }) {
  return (
    <span class="loop-facts">
      <ProgressBar {...loop} />
      <span>
        {count(loop.ok + loop.failed)} of {count(loop.total)}
        {loop.failed > 0 && `, ${count(loop.failed)} failed`}
      </span>
      <button type="button" class="link" onClick={() => setQuery({ tab: "items" })}>
        items
      </button>
    </span>
  );
}

function Result({ data }: { data: StepRun }) {
  const { error, result, run, item } = data;
  return (
    <div class="padded">
      {error && <ErrorBox error={error} />}
      {result != null ? (
        <Value
          value={result}
          label={`Result of ${run}`}
          prefix={item === null ? `steps.${data.step}.result` : `steps.${data.step}.result[${item}]`}
        />
      ) : (
        !error && (
          <p class="quiet">
            {data.ended ? "The result is null." : "There is no result yet."}{" "}
            {!data.ended && <Button onClick={() => openPart("tasks")}>Show the tasks</Button>}
          </p>
        )
      )}
    </div>
  );
}
