import { useSignal } from "@preact/signals";
import { useResource } from "../api/resource.ts";
import type { ExecutionPage, ExecutionSummary, Wait } from "../api/types.gen.ts";
import { now } from "../clock.ts";
import { StatusIcon } from "../look/status.tsx";
import { Button } from "../parts/button.tsx";
import { later } from "../parts/lazy.tsx";
import { href } from "../routes.ts";
import { millis, runningDuration } from "../text/time.ts";

const RespondDialog = later("respondDialog", null);
const every = () => 10_000;

/** Runs that wait for an answer of a person: the first one, and how many more. */
export function Attention() {
  const waiting = useResource<ExecutionPage>("/executions?waits=signal&limit=20", every);
  const dialog = useSignal<WaitingRun | null>(null);
  const found = (waiting.data.value?.items ?? []).flatMap((run) =>
    run.waits.filter((wait) => wait.for === "signal").map((wait) => ({ run, wait })),
  );
  const [first, ...rest] = found.sort((a, b) => a.wait.since.localeCompare(b.wait.since));
  // The dialog stays when its run needs no response any more: it shows that, and keeps the typed text.
  return (
    <>
      {first && (
        <Banner
          first={first}
          more={moreWords(rest.length, waiting.data.value?.next != null)}
          onRespond={() => {
            dialog.value = first;
          }}
        />
      )}
      {dialog.value && (
        <RespondDialog
          executionId={dialog.value.run.execution_id}
          wait={dialog.value.wait}
          onClose={() => {
            dialog.value = null;
            void waiting.load();
          }}
        />
      )}
    </>
  );
}

interface WaitingRun {
  run: ExecutionSummary;
  wait: Wait;
}

function Banner({ first, more, onRespond }: { first: WaitingRun; more: string; onRespond: () => void }) {
  const since = millis(first.wait.since);
  return (
    <div class="attention">
      <StatusIcon status="waiting" />
      <span class="cut">
        Needs a response: <a href={href("run", { id: first.run.execution_id })}>{first.run.path}</a>, signal{" "}
        <code>{first.wait.name}</code>
        {since !== null && <span class="secondary nowrap">, {runningDuration(now.value - since)}</span>}
      </span>
      <Button role="operator" onClick={onRespond}>
        Respond...
      </Button>
      {more && <a href={href("runs", {}, { waits: "signal" })}>{more}</a>}
    </div>
  );
}

function moreWords(listed: number, areMore: boolean): string {
  if (areMore) return `more than ${listed} more`;
  return listed ? `${listed} more` : "";
}
