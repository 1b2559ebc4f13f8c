import type { Attempt, StepRun, Visit } from "../../api/types.gen.ts";
import { StatusIcon } from "../../look/status.tsx";
import { Moment } from "../../parts/moment.tsx";
import { Empty } from "../../parts/states.tsx";
import { count } from "../../text/number.ts";
import { duration, millis } from "../../text/time.ts";
import type { RunModel } from "../model.ts";
import { selection } from "../selection.ts";
import { ErrorBox } from "./error-box.tsx";
import { EventLink } from "./sentence.tsx";

/** The visits of each task and their attempts, as far as the event of the view. */
export function Tasks({ model, data }: { model: RunModel; data: StepRun }) {
  const at = model.at.value;
  const visits = data.tasks
    .map((visit) => ({ ...visit, attempts: visit.attempts.filter(({ seq }) => seq <= at) }))
    .filter(({ attempts }) => attempts.length);
  const running = runningTask(model, data);
  if (!visits.length && !running)
    return (
      <Empty
        text={
          data.loop && data.item === null ? "The tasks of a loop are those of its items." : "No task has ended yet."
        }
      />
    );
  return (
    <ol class="padded tasks">
      {visits.map((visit) => (
        <li key={visit.task} class={visit.task === selection.value.task ? "selected" : undefined}>
          <VisitView model={model} visit={visit} />
        </li>
      ))}
      {running && (
        <li class="task-head">
          <StatusIcon status="running" />
          <strong>{running}</strong> running
        </li>
      )}
      {data.truncated && <li class="quiet">Earlier tasks are left out.</li>}
    </ol>
  );
}

/** The task that runs at the event of the view; only the state knows it. */
function runningTask(model: RunModel, { run, item, tasks }: StepRun): string | null {
  const state = model.state.value;
  const isListed = tasks.some(({ attempts }) => attempts.at(-1)?.status === "running");
  if (isListed || item !== null || state?.seq !== model.at.value) return null;
  return state.runs?.find((active) => active.run === run && active.status === "running")?.task ?? null;
}

function VisitView({ model, visit }: { model: RunModel; visit: Visit }) {
  return (
    <>
      <div class="task-head">
        <strong>{visit.label}</strong>
        <code>{visit.kind}</code>
        {visit.visit > 1 && <span class="quiet">visit {count(visit.visit)}</span>}
      </div>
      <ol class="attempts">
        {visit.attempts.map((attempt) => (
          <AttemptView key={attempt.seq} model={model} attempt={attempt} />
        ))}
      </ol>
    </>
  );
}

const FINE = ["ok", "running", "skipped"];

function AttemptView({ model, attempt }: { model: RunModel; attempt: Attempt }) {
  const { error } = attempt;
  const backoff = backoffMs(attempt);
  return (
    <li>
      <div class="attempt-head">
        <EventLink model={model} seq={attempt.seq} text={count(attempt.seq)} />
        <StatusIcon status={FINE.includes(attempt.status) ? attempt.status : "failed"} />
        <span>attempt {attempt.attempt}</span>
        <span>{duration(attempt.duration_ms)}</span>
        {attempt.do && (
          <span class="directive">
            {attempt.do}
            {attempt.to && attempt.do === "jump" && ` to ${attempt.to}`}
            {backoff !== null && ` after ${duration(backoff)}`}
          </span>
        )}
        <span class="quiet">
          <Moment at={attempt.started} />
        </span>
      </div>
      {error && <ErrorBox error={error} />}
    </li>
  );
}

/** How long the retry waits: from the end of the attempt until it is due. */
function backoffMs({ started, duration_ms, due }: Attempt): number | null {
  const [begin, end] = [millis(started), millis(due)];
  return begin === null || end === null || duration_ms === null ? null : Math.max(0, end - begin - duration_ms);
}
