import { withQuery } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { Row } from "../api/types.gen.ts";
import { Moment } from "../parts/moment.tsx";
import { count } from "../text/number.ts";
import { oneLine } from "../text/printable.ts";

/** The last event that the fork takes over: typed, or chosen with a slider. */
export function EventChoice({
  id,
  at,
  latest,
  onChange,
}: {
  id: string;
  at: number;
  latest: number;
  onChange: (at: number) => void;
}) {
  const events = useResource<{ items: Row[] }>(
    withQuery(`/executions/${encodeURIComponent(id)}/events`, { view: "row", after: at - 1, limit: 1 }),
  );
  const [seq, ms, type, entity, , summary] = events.data.value?.items[0] ?? [];
  const set = (value: number) => {
    if (Number.isFinite(value)) onChange(Math.max(1, Math.min(latest, Math.round(value))));
  };
  return (
    <div class="event-choice">
      <label>
        from event{" "}
        <input
          class="input"
          type="number"
          min={1}
          max={latest}
          value={at}
          onInput={(event) => set(event.currentTarget.valueAsNumber)}
        />
      </label>
      <span class="secondary">of {count(latest)}</span>
      <input
        type="range"
        aria-label="Event of the fork"
        aria-valuetext={`Event ${count(at)} of ${count(latest)}${type ? `, ${type} of ${entity}` : ""}`}
        min={1}
        max={latest}
        value={at}
        onInput={(event) => set(event.currentTarget.valueAsNumber)}
      />
      <span class="event-row cut">
        {seq === at && (
          <>
            <code>{type}</code> {oneLine(entity ?? "")} <span class="secondary">{oneLine(summary ?? "")}</span>{" "}
            <Moment at={ms} withMillis />
          </>
        )}
      </span>
    </div>
  );
}
