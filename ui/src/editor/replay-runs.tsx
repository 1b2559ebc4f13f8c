import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { withQuery } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { ExecutionPage, ExecutionSummary } from "../api/types.gen.ts";
import { ReplayRun } from "../fork/replay.ts";
import { Status } from "../look/status.tsx";
import { Button } from "../parts/button.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { Moment } from "../parts/moment.tsx";
import { Empty, Loaded } from "../parts/states.tsx";
import { href } from "../routes.ts";
import { count, shortId } from "../text/number.ts";

const RUNS = 10;

/** Replays the latest runs of the playbook against the draft, one after the other, and lists the first differences. */
export function ReplayRunsDialog({ path, text, onClose }: { path: string; text: string; onClose: () => void }) {
  const runs = useResource<ExecutionPage>(withQuery("/executions", { path, limit: RUNS }));
  return (
    <Dialog title="Replay runs" wide onClose={onClose} footer={<Button onClick={onClose}>Close</Button>}>
      <p class="secondary">The draft decides the logs of the latest runs of {path} again. Nothing is run or stored.</p>
      <Loaded of={runs}>
        {({ items }) =>
          items.length ? <Replays runs={items} text={text} /> : <Empty text="This playbook has not run yet." />
        }
      </Loaded>
    </Dialog>
  );
}

function Replays({ runs, text }: { runs: ExecutionSummary[]; text: string }) {
  const replays = useMemo(() => runs.map((run) => new ReplayRun(run.execution_id)), []);
  const done = useSignal(false);
  useEffect(() => {
    let wanted = true;
    void (async () => {
      for (const replay of replays) if (wanted) await replay.start(text);
      done.value = true;
    })();
    return () => {
      wanted = false;
      for (const replay of replays) replay.stop();
    };
  }, []);
  const differing = replays.filter(({ result }) => result.value?.equal === false).length;
  return (
    <>
      <ul class="replay-runs">
        {runs.slice(0, replays.length).map((run, place) => (
          <li key={run.execution_id}>
            <a href={href("run", { id: run.execution_id })} title={run.execution_id}>
              <code>{shortId(run.execution_id)}</code>
            </a>
            <Status status={run.status} />
            <span class="secondary">
              <Moment at={run.started} />
            </span>
            <Outcome replay={replays[place]} id={run.execution_id} />
          </li>
        ))}
      </ul>
      <p role="status">
        {done.value && (differing ? `${differing} of ${runs.length} runs differ.` : "No run differs.")}
      </p>
    </>
  );
}

function Outcome({ replay, id }: { replay: ReplayRun | undefined; id: string }) {
  const result = replay?.result.value;
  if (replay?.problem.value) return <span class="replay-outcome bad">{replay.problem.value.detail}</span>;
  if (replay?.running.value)
    return <span class="replay-outcome">{result ? `event ${count(result.scanned_to)}` : "replaying"}</span>;
  if (!result) return <span class="replay-outcome quiet">waiting</span>;
  const difference = result.first_difference;
  if (!difference) return <span class="replay-outcome good">no difference</span>;
  return (
    <span class="replay-outcome bad">
      differs at{" "}
      <a href={href("run", { id }, { at: difference.seq, event: difference.seq, tab: "events" })}>
        event {count(difference.seq)}
      </a>
      , {difference.event_type}
    </span>
  );
}
