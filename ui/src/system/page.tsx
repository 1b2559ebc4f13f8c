/** The state of the server: dependencies, versions, verify, prune. */

import { useSignal } from "@preact/signals";
import { get, post } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { Pruned, Server, VerifiedPage, Violation } from "../api/types.gen.ts";
import { Status } from "../look/status.tsx";
import { forbidden, hasRole } from "../me.ts";
import { Button } from "../parts/button.tsx";
import { Select } from "../parts/field.tsx";
import { FormDialog } from "../parts/form-dialog.tsx";
import { Moment } from "../parts/moment.tsx";
import { Empty, Loaded } from "../parts/states.tsx";
import { Table } from "../parts/table.tsx";
import { toastProblem } from "../parts/toast.tsx";
import { href } from "../routes.ts";
import { SettingsTabs } from "../shell/settings-tabs.tsx";
import { count, counted, shortId } from "../text/number.ts";
import { useReadiness } from "./readiness.ts";
import "./system.css";

const every = () => 5_000;

export default function SystemPage() {
  return (
    <div class="page">
      <SettingsTabs />
      <header>
        <h1>System</h1>
      </header>
      <Dependencies />
      {hasRole("operator") ? <ServerFacts /> : <Empty text={forbidden("operator") ?? ""} />}
      <Verify />
      <Prune />
      <section class="system-links">
        <h2>API and monitoring</h2>
        <div>
          <a href="/api/v1/openapi.json">API description</a> <a href="/metrics">Metrics</a>{" "}
          <a href="/readyz">Readiness</a>
        </div>
      </section>
    </div>
  );
}

function Dependencies() {
  const state = useReadiness();
  if (!state.value) return null;
  return (
    <section>
      <h2>Dependencies</h2>
      <Table
        label="Dependencies"
        rows={state.value.dependencies}
        rowKey={({ name }) => name}
        columns={[
          { title: "Name", cell: ({ name, required }) => <strong>{required ? name : `${name} (optional)`}</strong> },
          { title: "Status", cell: ({ status }) => <Status status={status === "ok" ? "ok" : "failed"} /> },
          { title: "Detail", cell: ({ detail, status }) => (detail === status ? "-" : detail || "-") },
          { title: "Since", cell: ({ since }) => <Moment at={since} /> },
        ]}
      />
    </section>
  );
}

function ServerFacts() {
  const server = useResource<Server>("/server", every);
  return (
    <section>
      <h2>Server</h2>
      <Loaded of={server} rows={3}>
        {(data) => (
          <dl class="facts card facts-card">
            <dt>Version</dt>
            <dd>{data.version}</dd>
            <dt>Started</dt>
            <dd>
              <Moment at={data.started} />
            </dd>
            <dt>Open runs</dt>
            <dd>
              {Object.entries(data.executions)
                .filter(([, number]) => number)
                .map(([status, number]) => `${count(number)} ${status}`)
                .join(", ") || "none"}
            </dd>
            <dt>Waiting for a worker</dt>
            <dd>{count(data.ready)}</dd>
            <dt>Leases</dt>
            <dd>{count(data.leases)}</dd>
          </dl>
        )}
      </Loaded>
    </section>
  );
}

/** Checks every log against the invariants, page by page, and shows how far it is. */
function Verify() {
  const [busy, checked, violations] = [useSignal(false), useSignal<number | null>(null), useSignal<Violation[]>([])];
  const start = async () => {
    busy.value = true;
    checked.value = 0;
    violations.value = [];
    try {
      let cursor: string | null = "";
      while (cursor !== null) {
        const page: VerifiedPage = await get<VerifiedPage>("/verify", { query: { cursor, limit: 100 } });
        checked.value = (checked.value ?? 0) + page.executions;
        violations.value = [...violations.value, ...page.violations];
        cursor = page.next;
      }
    } catch (error) {
      toastProblem("The verification did not finish", error);
    } finally {
      busy.value = false;
    }
  };
  return (
    <section>
      <h2>Verify</h2>
      <p class="system-line">
        <Button role="operator" busy={busy.value} onClick={() => void start()}>
          Verify all logs
        </Button>
        {checked.value === null ? (
          <span class="secondary">Checks the log of every run against the invariants of the engine.</span>
        ) : (
          <span role="status">
            {counted(checked.value, "run")} verified{busy.value ? " so far" : ""},{" "}
            {counted(violations.value.length, "violation")}
          </span>
        )}
      </p>
      {violations.value.length > 0 && (
        <Table
          label="Violations"
          rows={violations.value}
          rowKey={({ execution_id, seq, invariant }) => `${execution_id}-${seq}-${invariant}`}
          columns={[
            {
              title: "Run",
              cell: ({ execution_id, seq }) => (
                <a href={href("run", { id: execution_id }, { at: seq })}>{shortId(execution_id)}</a>
              ),
            },
            { title: "Event", kind: "number", cell: ({ seq }) => count(seq) },
            { title: "Invariant", cell: ({ invariant }) => <code>{invariant}</code> },
            { title: "Message", cell: ({ message }) => message },
          ]}
        />
      )}
    </section>
  );
}

const DAY = 86_400;
const AGES = [7, 30, 90, 365].map((days) => ({ value: String(days * DAY), label: `ended more than ${days} days ago` }));

/** Deletes old runs, after a dry run that counts them. */
function Prune() {
  const [age, preview] = [useSignal(String(30 * DAY)), useSignal<Pruned | null>(null)];
  const look = async () => {
    try {
      preview.value = await post<Pruned>("/executions/prune", { older_than: Number(age.value), dry_run: true });
    } catch (error) {
      toastProblem("The dry run failed", error);
    }
  };
  const prune = async () => {
    let more = true;
    while (more) more = (await post<Pruned>("/executions/prune", { older_than: Number(age.value) })).more;
  };
  return (
    <section>
      <h2>Prune</h2>
      <p class="system-line">
        <Select label="Runs to delete" value={age} options={AGES} />
        <Button role="admin" onClick={() => void look()}>
          Delete old runs...
        </Button>
      </p>
      {preview.value && (
        <FormDialog
          title="Delete old runs"
          button="Delete runs"
          danger
          done="The old runs are deleted."
          act={prune}
          onClose={() => {
            preview.value = null;
          }}
        >
          <p>
            Deletes {preview.value.more ? "at least " : ""}
            {counted(preview.value.removed || preview.value.items.length, "run")} with their events, logs and results.
            This cannot be undone.
          </p>
        </FormDialog>
      )}
    </section>
  );
}
