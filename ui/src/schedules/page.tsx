/** The schedules: when each fires next and how its last firings went. */

import { useSignal } from "@preact/signals";
import { useResource } from "../api/resource.ts";
import type { Fired, Schedule, SchedulePage } from "../api/types.gen.ts";
import { StatusIcon } from "../look/status.tsx";
import { Button } from "../parts/button.tsx";
import { FilterField, filtered } from "../parts/filter.tsx";
import { Countdown, Moment } from "../parts/moment.tsx";
import { Empty, Loaded } from "../parts/states.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { href } from "../routes.ts";
import { ScheduleDialog } from "./dialog.tsx";
import { whenWords } from "./words.ts";
import "./schedules.css";

const every = () => 5_000;

export default function SchedulesPage() {
  const schedules = useResource<SchedulePage>("/schedules?limit=1000", every);
  const creating = useSignal(false);
  return (
    <div class="page">
      <header>
        <h1>Schedules</h1>
        <FilterField />
        <Button
          kind="primary"
          role="author"
          onClick={() => {
            creating.value = true;
          }}
        >
          Create a schedule...
        </Button>
      </header>
      <Loaded of={schedules}>
        {({ items }) =>
          items.length ? (
            <Table
              label="Schedules"
              columns={COLUMNS}
              rows={filtered(items, (schedule) => `${schedule.name} ${schedule.path} ${schedule.status}`)}
              rowKey={(schedule) => schedule.name}
            />
          ) : (
            <Empty text="No schedules yet.">
              <code>noetl schedule add nightly shop/orders --cron "0 2 * * *"</code>
            </Empty>
          )
        }
      </Loaded>
      {creating.value && (
        <ScheduleDialog
          onClose={() => {
            creating.value = false;
            void schedules.load();
          }}
        />
      )}
    </div>
  );
}

const COLUMNS: Column<Schedule>[] = [
  {
    title: "Name",
    cell: (schedule) => (
      <a href={href("schedule", { name: schedule.name })}>
        <strong>{schedule.name}</strong>
      </a>
    ),
  },
  { title: "Playbook", cell: (schedule) => <a href={href("playbook", { path: schedule.path })}>{schedule.path}</a> },
  {
    title: "Fires",
    cell: (schedule) => (
      <>
        {whenWords(schedule)} {schedule.cron && <span class="quiet">{schedule.timezone}</span>}
      </>
    ),
  },
  {
    title: "Next",
    cell: (schedule) =>
      schedule.status === "active" && schedule.next ? (
        <>
          <Moment at={schedule.next} />{" "}
          <span class="quiet">
            <Countdown due={schedule.next} />
          </span>
        </>
      ) : (
        <span class="quiet">{schedule.status}</span>
      ),
  },
  {
    title: "Last",
    cell: (schedule) => (schedule.last ? <Moment at={schedule.last.at} /> : <span class="quiet">-</span>),
  },
  { title: "Outcomes", cell: (schedule) => <Outcomes fired={schedule.recent} /> },
];

const ICON: Record<Fired["outcome"], string> = {
  started: "succeeded",
  failed: "failed",
  missed: "skipped",
  skipped: "skipped",
};

/** The last ten firings, oldest first; each that started a run is a link to it. */
function Outcomes({ fired }: { fired: Fired[] }) {
  if (!fired.length) return <span class="quiet">-</span>;
  return (
    <span class="outcomes">
      {fired.slice(-10).map((firing) => {
        const text = `${firing.outcome} at ${firing.at}${firing.reason ? `: ${firing.reason}` : ""}`;
        const icon = <StatusIcon status={ICON[firing.outcome]} />;
        return firing.execution_id ? (
          <a
            key={firing.due + firing.at}
            href={href("run", { id: firing.execution_id })}
            title={text}
            aria-label={text}
          >
            {icon}
          </a>
        ) : (
          <span key={firing.due + firing.at} role="img" title={text} aria-label={text}>
            {icon}
          </span>
        );
      })}
    </span>
  );
}
