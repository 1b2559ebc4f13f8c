/** Compares two runs: steps, events, data and playbook. */

import { useResource } from "../api/resource.ts";
import type { EventSides, Execution, ExecutionDiff } from "../api/types.gen.ts";
import { go, parameter, setQuery } from "../location.ts";
import { Status } from "../look/status.tsx";
import { Button } from "../parts/button.tsx";
import { Elapsed, Moment } from "../parts/moment.tsx";
import { Loading, ProblemBox } from "../parts/states.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { href } from "../routes.ts";
import { NotFound } from "../run/not-found.tsx";
import type { ViewProps } from "../shell/app.tsx";
import { jsonLine } from "../text/json-line.ts";
import { count, shortId } from "../text/number.ts";
import { cut } from "../text/printable.ts";
import { type Comparison, useComparison } from "./comparison.ts";
import { DataTab } from "./data.tsx";
import { EventsTab } from "./events.tsx";
import { PlaybookTab } from "./playbook.tsx";
import { StepsTab } from "./steps.tsx";
import "./page.css";

const PART = 40; // characters of a value of the first difference

export default function ComparePage({ params }: ViewProps) {
  const [a, b] = [params.a ?? "", params.b ?? ""];
  const [left, right] = [useRun(a), useRun(b)];
  const comparison = useComparison(a, b);
  for (const [id, run] of [[a, left] as const, [b, right] as const])
    if (run.problem.value?.status === 404 && !run.data.value) return <NotFound id={id} />;
  const problem = left.problem.value ?? right.problem.value ?? comparison.problem.value;
  if (!left.data.value || !right.data.value)
    return problem ? <ProblemBox problem={problem} onRetry={comparison.load} /> : <Loading />;
  const sides = { a: left.data.value, b: right.data.value };
  return (
    <div class="page compare">
      <h1 class="hidden-text">
        Compare {shortId(a)} and {shortId(b)}
      </h1>
      <header class="card">
        <Side letter="A" run={sides.a} />
        <Button onClick={() => go(href("compare", { a: b, b: a }, { tab: parameter("tab") }))}>Swap</Button>
        <Side letter="B" run={sides.b} />
      </header>
      {problem && <ProblemBox problem={problem} onRetry={comparison.load} />}
      <FirstDifference comparison={comparison} runs={sides} />
      <div class="compare-bar">
        <Tabs
          label="What to compare"
          active={parameter("tab") || "steps"}
          tabs={[
            { name: "steps", label: "Steps" },
            { name: "events", label: "Events" },
            { name: "data", label: "Data" },
            { name: "playbook", label: "Playbook" },
          ]}
          onChoose={(name) => setQuery({ tab: name === "steps" ? null : name })}
        />
        <label class="check">
          <input
            type="checkbox"
            checked={!parameter("all")}
            onChange={(event) => setQuery({ all: event.currentTarget.checked ? null : 1 })}
          />
          only differences
        </label>
      </div>
      {comparison.data.value ? <Content runs={sides} diff={comparison.data.value} /> : !problem && <Loading />}
    </div>
  );
}

const useRun = (id: string) => useResource<Execution>(`/executions/${encodeURIComponent(id)}`);

export interface Runs {
  a: Execution;
  b: Execution;
}

function Content({ runs, diff }: { runs: Runs; diff: ExecutionDiff }) {
  const only = !parameter("all");
  switch (parameter("tab")) {
    case "events":
      return <EventsTab runs={runs} first={diff.first_difference} only={only} />;
    case "data":
      return <DataTab runs={runs} diff={diff} only={only} />;
    case "playbook":
      return <PlaybookTab runs={runs} />;
    default:
      return <StepsTab runs={runs} steps={diff.steps} only={only} />;
  }
}

function Side({ letter, run }: { letter: string; run: Execution }) {
  return (
    <div class="compare-side">
      <strong>{letter}</strong>
      <a href={href("run", { id: run.execution_id })} title={run.execution_id}>
        <code>{shortId(run.execution_id)}</code>
      </a>
      <Status status={run.status} soft />
      <Elapsed from={run.started} to={run.ended} />
      <span class="secondary">
        {run.path}
        {run.version !== null && `@${run.version}`}
      </span>
      <span class="secondary">
        <Moment at={run.started} />
      </span>
    </div>
  );
}

function FirstDifference({ comparison, runs: { a, b } }: { comparison: Comparison; runs: Runs }) {
  const diff = comparison.data.value;
  if (!diff) return null;
  const relation = forkWords("A", a, "B", b) || forkWords("B", b, "A", a);
  if (diff.first_difference) return <Difference first={diff.first_difference} relation={relation} />;
  if (diff.equal === null)
    return (
      <p class="compare-first warning">
        Compared {count(diff.scanned_to)} of {count(Math.min(a.events, b.events))} events.
        {comparison.loading.value && <Button onClick={comparison.stop}>Stop</Button>}
      </p>
    );
  return (
    <p class="compare-first warning good">
      {relation}
      {diff.equal
        ? "No differences. Times, workers and users are not compared."
        : "All events are the same; the states differ. See Data."}
    </p>
  );
}

/** "B is a retry of A at event 16. "; empty if it is none. */
function forkWords(
  source: string,
  { execution_id }: Execution,
  fork: string,
  { forked_from: from }: Execution,
): string {
  if (from?.execution_id !== execution_id) return "";
  return `${fork} is a ${from.reason} of ${source} at event ${count(from.seq)}. `;
}

function Difference({ first: { a_seq, b_seq, a, b }, relation }: { first: EventSides; relation: string }) {
  const seq = a_seq ?? b_seq ?? 0;
  const [ours, theirs] = [eventWords(a), eventWords(b)];
  return (
    <p class="compare-first warning">
      <span>
        {relation}First difference: event {count(seq)}
        {a && b && a_seq !== b_seq && ` in A, ${count(b_seq ?? 0)} in B`},{" "}
        {ours !== theirs && a && b ? `${ours} in A, ${theirs} in B` : ours || theirs}
        {!a && ", only in B"}
        {!b && ", only in A"}
        {a && b && ours === theirs && partWords(a, b)}
      </span>
      <Button onClick={() => setQuery({ tab: "events", event: null })}>Show</Button>
    </p>
  );
}

/** "next.evaluated of count#1"; empty without an event. */
function eventWords(side: EventSides["a"]): string {
  const task = side?.task as (string | number | null)[] | undefined; // of which step run, and of which item
  const subject = side?.run ?? side?.step ?? task?.filter((part) => part !== null).join("/");
  return side ? `${side.event_type}${subject ? ` of ${subject}` : ""}` : "";
}

/** The first part of an event that differs, with both values. */
function partWords(a: Record<string, unknown>, b: Record<string, unknown>): string {
  const key = Object.keys({ ...a, ...b }).find((key) => JSON.stringify(a[key]) !== JSON.stringify(b[key])) ?? "";
  const [ours, theirs] = [a[key], b[key]].map((value) => cut(jsonLine(value), PART));
  if (key === "playbook") return ", of another playbook"; // digests mean nothing to a reader
  return `: ${key} ${ours} in A, ${theirs} in B`;
}
