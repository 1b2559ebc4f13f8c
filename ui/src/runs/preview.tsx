import { useResource } from "../api/resource.ts";
import type { Execution } from "../api/types.gen.ts";
import { now } from "../clock.ts";
import { setQuery } from "../location.ts";
import { Status } from "../look/status.tsx";
import { Button, LinkButton } from "../parts/button.tsx";
import { Copy } from "../parts/copy.tsx";
import { Elapsed, Moment } from "../parts/moment.tsx";
import { Loaded } from "../parts/states.tsx";
import { href } from "../routes.ts";
import { activityText } from "../text/activity.ts";
import { shortId } from "../text/number.ts";
import { triggerText } from "./row.tsx";

const every = (run: Execution | undefined) => (run?.ended ? null : 2_000);

/** The summary of a run beside the list. */
export function Preview({ id }: { id: string }) {
  const details = useResource<Execution>(`/executions/${encodeURIComponent(id)}`, every);
  return (
    <aside class="preview" aria-label="Preview">
      <header>
        <h2 class="cut">{details.data.value?.name ?? shortId(id)}</h2>
        <Button kind="quiet" icon="close" label="Close the preview" onClick={() => setQuery({ preview: null })} />
      </header>
      <Loaded of={details}>{(run) => <Summary run={run} />}</Loaded>
    </aside>
  );
}

function Summary({ run }: { run: Execution }) {
  const steps = Object.entries(run.steps);
  return (
    <div class="preview-body">
      <Status status={run.status} soft />
      {run.activity && !run.error && <p>{activityText(run, now.value)}</p>}
      {run.error && (
        <div class="preview-error">
          <strong>
            {run.error.step}: {run.error.kind}
          </strong>
          <p>{run.error.message}</p>
        </div>
      )}
      <dl class="facts">
        <dt>Id</dt>
        <dd class="run-id">
          <code>{shortId(run.execution_id)}</code> <Copy text={run.execution_id} what="the id" />
        </dd>
        <dt>Started</dt>
        <dd>
          <Moment at={run.started} />
        </dd>
        <dt>Duration</dt>
        <dd>
          <Elapsed from={run.started} to={run.ended} ms={run.ended ? run.duration_ms : null} />
        </dd>
        <dt>Trigger</dt>
        <dd>{triggerText(run)}</dd>
      </dl>
      {steps.length > 0 && (
        <ul class="preview-steps">
          {steps.slice(0, 40).map(([name, step]) => (
            <li key={name}>
              <a href={href("run", { id: run.execution_id }, { step: name })}>{name}</a>
              <Status status={step.status} />
            </li>
          ))}
        </ul>
      )}
      <LinkButton kind="primary" href={href("run", { id: run.execution_id })}>
        Open the run
      </LinkButton>
    </div>
  );
}
