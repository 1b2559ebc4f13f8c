import { useSignal } from "@preact/signals";
import { withQuery } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { ExecutionPage } from "../api/types.gen.ts";
import { Status } from "../look/status.tsx";
import { Button, LinkButton } from "../parts/button.tsx";
import { Elapsed, Moment } from "../parts/moment.tsx";
import { Empty, Loaded } from "../parts/states.tsx";
import { href } from "../routes.ts";
import { shortId } from "../text/number.ts";

const LIMIT = 50;
const POLL_MS = 2000;
const isActive = (page: ExecutionPage | undefined) =>
  page?.items.some(({ ended }) => ended === null) ? POLL_MS : 5 * POLL_MS;

/** The runs of a playbook, newest first. */
export function PlaybookRuns({ path }: { path: string }) {
  const cursor = useSignal("");
  const runs = useResource<ExecutionPage>(
    withQuery("/executions", { path, limit: LIMIT, cursor: cursor.value }),
    isActive,
  );
  return (
    <Loaded of={runs}>
      {({ items, next }) =>
        items.length ? (
          <>
            <table class="card plain-table">
              <thead>
                <tr>
                  <th>Status</th>
                  <th>Run</th>
                  <th class="wide-only">Version</th>
                  <th class="wide-only">Activity</th>
                  <th>Started</th>
                  <th>Duration</th>
                </tr>
              </thead>
              <tbody>
                {items.map((run) => (
                  <tr key={run.execution_id}>
                    <td>
                      <Status status={run.status} />
                    </td>
                    <td>
                      <a href={href("run", { id: run.execution_id })} title={run.execution_id}>
                        <code>{shortId(run.execution_id)}</code>
                      </a>
                    </td>
                    <td class="wide-only">{run.version ?? "-"}</td>
                    <td class="wide-only">{run.activity}</td>
                    <td>
                      <Moment at={run.started} />
                    </td>
                    <td>
                      <Elapsed from={run.started} to={run.ended} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
            <p class="playbook-actions">
              {next && (
                <Button
                  onClick={() => {
                    cursor.value = next;
                  }}
                >
                  Older runs
                </Button>
              )}
              <a href={href("runs", {}, { playbook: path })}>Show in Runs</a>
            </p>
          </>
        ) : (
          <Empty text="This playbook has not run yet.">
            <LinkButton href={href("start", { path })}>Start...</LinkButton>
          </Empty>
        )
      }
    </Loaded>
  );
}
