/** Pools with their queues and waiting times, then the workers. */

import { useSignal } from "@preact/signals";
import { post } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { Pool, Worker, Workers } from "../api/types.gen.ts";
import { Icon } from "../look/icons.tsx";
import { Button } from "../parts/button.tsx";
import { FilterField, filtered } from "../parts/filter.tsx";
import { FormDialog } from "../parts/form-dialog.tsx";
import { Elapsed, Moment } from "../parts/moment.tsx";
import { Empty, Loaded } from "../parts/states.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { count, counted } from "../text/number.ts";

const every = () => 2_000;

type OpenDialog = { action: "drain" | "stop"; worker: Worker };

export default function WorkersPage() {
  const workers = useResource<Workers>("/workers", every);
  const dialog = useSignal<OpenDialog | null>(null);
  return (
    <div class="page">
      <header>
        <h1>Workers</h1>
        <FilterField />
      </header>
      <Loaded of={workers}>
        {({ pools, items }) => (
          <>
            {pools.length > 0 ? (
              <Table
                label="Pools"
                columns={POOLS}
                rows={filtered(
                  pools.toSorted((a, b) => +hasAlert(b) - +hasAlert(a)),
                  (pool) => pool.pool,
                )}
                rowKey={(pool) => pool.pool}
              />
            ) : (
              <Empty text="No worker is connected.">
                <code>noetl worker</code>
              </Empty>
            )}
            {items.length > 0 && (
              <Table
                label="Workers"
                columns={workerColumns((next) => {
                  dialog.value = next;
                })}
                rows={filtered(items, (worker) => `${worker.worker} ${worker.pool} ${worker.host} ${worker.status}`)}
                rowKey={(worker) => worker.worker}
              />
            )}
          </>
        )}
      </Loaded>
      {dialog.value && (
        <ConfirmAction
          dialog={dialog.value}
          onClose={() => {
            dialog.value = null;
            void workers.load();
          }}
        />
      )}
    </div>
  );
}

const hasAlert = (pool: Pool): boolean => !!pool.queued && !pool.workers;

const POOLS: Column<Pool>[] = [
  { title: "Pool", cell: (pool) => <strong>{pool.pool}</strong> },
  { title: "Workers", kind: "number", cell: (pool) => count(pool.workers ?? 0) },
  { title: "Slots", kind: "number", cell: (pool) => count(pool.slots ?? 0) },
  { title: "Busy", kind: "number", cell: (pool) => count(pool.busy ?? 0) },
  { title: "Queued", kind: "number", cell: (pool) => count(pool.queued ?? 0) },
  {
    title: "Oldest wait",
    kind: "number",
    cell: (pool) => (pool.oldest ? <Elapsed from={pool.oldest} /> : <span class="quiet">-</span>),
  },
  {
    title: "Alert",
    cell: (pool) =>
      hasAlert(pool) ? (
        <span class="alert">
          <Icon name="warning" />{" "}
          {pool.draining ? `no active worker, ${count(pool.draining)} draining` : "no worker connected"}
        </span>
      ) : pool.draining ? (
        `${count(pool.draining)} draining`
      ) : (
        ""
      ),
  },
];

function workerColumns(open: (dialog: OpenDialog) => void): Column<Worker>[] {
  return [
    { title: "Worker", cell: (worker) => <code>{worker.worker}</code> },
    { title: "Pool", cell: (worker) => worker.pool },
    { title: "Status", cell: (worker) => worker.status },
    { title: "Slots", kind: "number", cell: (worker) => count(worker.slots) },
    { title: "Leases", kind: "number", cell: (worker) => count(worker.busy) },
    { title: "Last heartbeat", cell: (worker) => <Moment at={worker.last_heard} /> },
    { title: "Host", cell: (worker) => worker.host || "-" },
    { title: "Version", cell: (worker) => worker.version || "-" },
    {
      title: "Actions",
      kind: "actions",
      cell: (worker) => (
        <>
          <Button
            role="operator"
            reason={worker.status === "active" ? null : `The worker is ${worker.status}.`}
            onClick={() => open({ action: "drain", worker })}
          >
            Drain...
          </Button>
          <Button
            role="operator"
            kind="danger"
            reason={worker.status === "gone" ? "The worker is gone." : null}
            onClick={() => open({ action: "stop", worker })}
          >
            Stop...
          </Button>
        </>
      ),
    },
  ];
}

function ConfirmAction({ dialog: { action, worker }, onClose }: { dialog: OpenDialog; onClose: () => void }) {
  const isDrain = action === "drain";
  const leases = worker.busy ? `finishes ${counted(worker.busy, "lease")}` : "has no leases";
  return (
    <FormDialog
      title={isDrain ? "Drain worker" : "Stop worker"}
      button={isDrain ? "Drain worker" : "Stop worker"}
      danger={!isDrain}
      done={`${worker.worker} is ${isDrain ? "draining" : "stopping"}.`}
      act={() => post(`/workers/${action}`, { worker: worker.worker })}
      onClose={onClose}
    >
      <p>{`${worker.worker} ${leases} and ${isDrain ? "takes no new work" : "then ends"}.`}</p>
    </FormDialog>
  );
}
