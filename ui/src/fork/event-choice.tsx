import { useSignal } from "@preact/signals";
import { withQuery } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { Outline, Row } from "../api/types.gen.ts";
import { withTimes } from "../parts/moment.tsx";
import { EventField } from "../run/history-slider/field.tsx";
import { EventTime, Track } from "../run/history-slider/track.tsx";
import { timeOf } from "../run/outline/time.ts";
import { count } from "../text/number.ts";
import { oneLine } from "../text/printable.ts";

interface EventChoiceProps {
  id: string;
  at: number;
  outline: Outline;
  onChange: (at: number) => void;
}

/** The last event that the fork takes over: typed, or chosen with the slider of the run. */
export function EventChoice({ id, at, outline, onChange }: EventChoiceProps) {
  const pointer = useSignal<number | null>(null); // while the handle moves
  const events = useResource<{ items: Row[] }>(
    withQuery(`/executions/${encodeURIComponent(id)}/events`, { view: "row", after: at - 1, limit: 1 }),
  );
  const choose = (seq: number) => {
    pointer.value = null;
    onChange(Math.max(1, Math.min(outline.seq, Math.round(seq))));
  };
  const here = pointer.value ?? at;
  const row = events.data.value?.items.find(([seq]) => seq === here);
  const ms = row?.[1] ?? timeOf(outline, here);
  return (
    <div class="event-choice">
      <span class="history-event">
        from event <EventField here={here} latest={outline.seq} onChoose={choose} /> of {count(outline.seq)}
      </span>
      <Track
        label="Event of the fork"
        outline={outline}
        scale="event"
        here={here}
        ms={ms}
        summary={row ? `${row[2]} ${row[5]}` : ""}
        onMove={(seq) => {
          pointer.value = Math.round(seq);
        }}
        onChoose={choose}
      />
      <EventTime ms={ms} />
      <span class="fork-event cut">
        {row && (
          <>
            <code>{row[2]}</code> {oneLine(row[3])} <span class="secondary">{withTimes(row[5])}</span>
          </>
        )}
      </span>
    </div>
  );
}
