import { useSignal } from "@preact/signals";
import { withQuery } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { ExecutionPage, ExecutionSummary } from "../api/types.gen.ts";
import { Status } from "../look/status.tsx";
import { Button, LinkButton } from "../parts/button.tsx";
import { Elapsed, Moment } from "../parts/moment.tsx";
import { Empty, Loaded } from "../parts/states.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { href } from "../routes.ts";
import { shortId } from "../text/number.ts";

const LIMIT = 50;
const POLL_MS = 2000;
const isActive = (page: ExecutionPage | undefined) =>
  page?.items.some(({ ended }) => ended === null) ? POLL_MS : 5 * POLL_MS;

const COLUMNS: Column<ExecutionSummary>[] = [
  { title: "Status", cell: (run) => <Status status={run.status} /> },
  {
    title: "Run",
    cell: (run) => (
      <a href={href("run", { id: run.execution_id })} title={run.execution_id}>
        <code>{shortId(run.execution_id)}</code>
      </a>
    ),
  },
  { title: "Version", cell: (run) => run.version ?? "-" },
  { title: "Activity", cell: (run) => run.activity },
  { title: "Started", cell: (run) => <Moment at={run.started} /> },
  { title: "Duration", cell: (run) => <Elapsed from={run.started} to={run.ended} /> },
];

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
            <Table label="Runs" columns={COLUMNS} rows={items} rowKey={(run) => run.execution_id} />
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
            <LinkButton role="operator" href={href("start", { path })}>
              Start...
            </LinkButton>
          </Empty>
        )
      }
    </Loaded>
  );
}
