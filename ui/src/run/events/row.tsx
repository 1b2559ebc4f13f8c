import { StatusIcon, statusTone } from "../../look/status.tsx";
import { Moment, withTimes } from "../../parts/moment.tsx";
import { count } from "../../text/number.ts";
import { oneLine } from "../../text/printable.ts";

/** An event as the API lists it. */
export type EventRow = [seq: number, ms: number, type: string, entity: string, status: string, summary: string];

export const EVENT_HEIGHT = 28;

const COLUMNS = [
  ["seq", "Event"],
  ["time", "Time"],
  ["type", "Type"],
  ["entity", "Subject"],
  ["summary", "Summary"],
  ["status", "Status"],
];

export function EventColumns() {
  return (
    <div class="event-row">
      {COLUMNS.map(([name, label]) => (
        <span key={name} class={`event-${name}`}>
          {label}
        </span>
      ))}
    </div>
  );
}

/** The cells of an event; while it is loaded only its number is there. */
export function EventCells({ seq, event }: { seq: number; event: EventRow | undefined }) {
  const [, ms, type, entity, status, summary] = event ?? [seq, null, "", "", "", ""];
  return (
    <>
      <span class="event-seq" role="gridcell">
        {count(seq)}
      </span>
      <span class="event-time" role="gridcell">
        {event && <Moment at={ms} withMillis />}
      </span>
      <span class="event-type cut" role="gridcell">
        {event ? type : <span class="placeholder w1" />}
      </span>
      <span class="event-entity cut" role="gridcell" title={entity}>
        {oneLine(entity)}
      </span>
      <span class="event-summary cut" role="gridcell" title={summary}>
        {withTimes(summary)}
      </span>
      <span class="event-status" role="gridcell">
        {status && <EventStatus status={status} />}
      </span>
    </>
  );
}

/** The status of the subject of an event at that time; it is not animated. */
const ICONS: Record<string, string> = { success: "succeeded", error: "failed", in_progress: "pending" };

function EventStatus({ status }: { status: string }) {
  const icon = ICONS[status] ?? status;
  return (
    <span class={`status tone-${statusTone(icon)}`}>
      <StatusIcon status={icon} />
      {status.replaceAll("_", " ")}
    </span>
  );
}
