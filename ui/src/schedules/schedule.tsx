/** One schedule: its times, its last firings, and its actions. */

import { useSignal } from "@preact/signals";
import { idempotencyKey, post, request } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { Schedule, Triggered } from "../api/types.gen.ts";
import { now } from "../clock.ts";
import { go } from "../location.ts";
import { Button } from "../parts/button.tsx";
import { FormDialog } from "../parts/form-dialog.tsx";
import { Countdown, Moment } from "../parts/moment.tsx";
import { Loaded } from "../parts/states.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { toast, toastProblem } from "../parts/toast.tsx";
import { Value } from "../parts/value.tsx";
import { href } from "../routes.ts";
import type { ViewProps } from "../shell/app.tsx";
import { shortId } from "../text/number.ts";
import { millis, moment } from "../text/time.ts";
import { ScheduleDialog } from "./dialog.tsx";
import { whenWords } from "./words.ts";

const every = () => 5_000;

export default function ScheduleView({ params }: ViewProps) {
  const name = params.name ?? "";
  const path = `/schedules/${encodeURIComponent(name)}`;
  const schedule = useResource<Schedule>(path, every);
  return (
    <div class="page">
      <Loaded of={schedule}>{(data) => <Details schedule={data} path={path} reload={schedule.load} />}</Loaded>
    </div>
  );
}

function Details({ schedule, path, reload }: { schedule: Schedule; path: string; reload: () => Promise<void> }) {
  const dialog = useSignal<"edit" | "delete" | null>(null);
  const close = () => {
    dialog.value = null;
    void reload();
  };
  const ownTime = (at: string) => `, ${moment(millis(at), now.value, schedule.timezone)} ${schedule.timezone}`;
  const isPaused = schedule.status === "paused";
  const act = async (action: "pause" | "resume") => {
    try {
      await post(`${path}/${action}`);
      toast(action === "pause" ? `${schedule.name} is paused.` : `${schedule.name} fires again.`);
    } catch (error) {
      toastProblem(`${schedule.name} was not changed`, error);
    }
    await reload();
  };
  const trigger = async () => {
    try {
      const { execution_id, queued } = await post<Triggered>(
        `${path}/trigger`,
        {},
        { headers: { "Idempotency-Key": idempotencyKey() } },
      );
      toast(queued ? "The run is queued until the previous run has ended." : "The run is started.", {
        link: { href: href("run", { id: execution_id }), text: "Open the run" },
      });
    } catch (error) {
      toastProblem("The run was not started", error);
    }
    await reload();
  };
  return (
    <>
      <header>
        <h1>{schedule.name}</h1>
        <span class="page-actions">
          <Button role="operator" onClick={() => void trigger()}>
            Start a run now
          </Button>
          <Button
            role="operator"
            reason={schedule.status === "retired" ? "The schedule is retired." : null}
            onClick={() => void act(isPaused ? "resume" : "pause")}
          >
            {isPaused ? "Resume" : "Pause"}
          </Button>
          <Button
            role="author"
            onClick={() => {
              dialog.value = "edit";
            }}
          >
            Edit...
          </Button>
          <Button
            role="author"
            kind="danger"
            onClick={() => {
              dialog.value = "delete";
            }}
          >
            Delete...
          </Button>
        </span>
      </header>
      <dl class="facts card facts-card">
        <dt>Playbook</dt>
        <dd>
          <a href={href("playbook", { path: schedule.path }, { version: schedule.version })}>
            {schedule.path}
            {schedule.version !== null && `@${schedule.version}`}
          </a>
        </dd>
        <dt>Fires</dt>
        <dd>
          {whenWords(schedule)}
          {schedule.cron && (
            <>
              , <code>{schedule.cron}</code>
            </>
          )}
        </dd>
        <dt>Status</dt>
        <dd>{schedule.status}</dd>
        <dt>Next</dt>
        <dd>
          {schedule.status === "active" && schedule.next ? (
            <>
              <Moment at={schedule.next} /> <Countdown due={schedule.next} />
              {ownTime(schedule.next)}
            </>
          ) : (
            "-"
          )}
        </dd>
        <dt>Last</dt>
        <dd>
          <Moment at={schedule.last?.at} />
          {schedule.last && `${ownTime(schedule.last.at)}: ${schedule.last.outcome}`}
        </dd>
        <dt>If the previous run is active</dt>
        <dd>{schedule.overlap}</dd>
        <dt>Missed firings</dt>
        <dd>{schedule.missed}</dd>
        <dt>Inputs</dt>
        <dd>
          {Object.keys(schedule.payload).length ? (
            <Value value={schedule.payload} label="Inputs" prefix="workload" />
          ) : (
            "-"
          )}
        </dd>
      </dl>
      <h2>Last firings</h2>
      {schedule.recent.length ? (
        <Table
          label="Last firings"
          columns={FIRINGS}
          rows={schedule.recent.toReversed()}
          rowKey={(fired) => fired.due + fired.at}
        />
      ) : (
        <p class="secondary">The schedule has not fired yet.</p>
      )}
      {dialog.value === "edit" && <ScheduleDialog schedule={schedule} onClose={close} />}
      {dialog.value === "delete" && (
        <FormDialog
          title="Delete schedule"
          button="Delete schedule"
          danger
          done={`${schedule.name} is deleted.`}
          act={async () => {
            await request("DELETE", path);
            go(href("schedules"));
          }}
          onClose={() => {
            dialog.value = null;
          }}
        >
          <p>{schedule.name} does not fire any more. Its runs stay. This cannot be undone.</p>
        </FormDialog>
      )}
    </>
  );
}

const FIRINGS: Column<Schedule["recent"][number]>[] = [
  { title: "Due", cell: (fired) => <Moment at={fired.due} /> },
  { title: "Fired", cell: (fired) => <Moment at={fired.at} /> },
  { title: "Outcome", cell: (fired) => fired.outcome },
  {
    title: "Run",
    cell: (fired) =>
      fired.execution_id ? (
        <a href={href("run", { id: fired.execution_id })}>
          <code>{shortId(fired.execution_id)}</code>
        </a>
      ) : (
        "-"
      ),
  },
  { title: "Reason", cell: (fired) => fired.reason || "-" },
];
