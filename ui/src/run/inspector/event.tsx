import { useResource } from "../../api/resource.ts";
import type { EventEnvelope, EventPage, Explanation } from "../../api/types.gen.ts";
import { Moment } from "../../parts/moment.tsx";
import { Empty, Loaded } from "../../parts/states.tsx";
import { Value } from "../../parts/value.tsx";
import { count } from "../../text/number.ts";
import type { RunModel } from "../model.ts";
import { DecisionView } from "./decision.tsx";
import { partPath } from "./following.tsx";
import { Heading } from "./heading.tsx";
import { SelectLink } from "./select-link.tsx";
import { EventLink } from "./sentence.tsx";
import { actorWords } from "./summary.tsx";

/** The events that are decisions, which the server can explain. */
const DECISIONS = ["next.evaluated", "task.done", "case.evaluated", "step.scheduled", "token.held", "token.denied"];

export function EventInspector({ model, seq }: { model: RunModel; seq: number }) {
  const page = useResource<EventPage>(partPath(model, "events", { after: Math.max(0, seq - 1), limit: 1 }));
  return (
    <Loaded of={page} rows={4}>
      {({ items }) => {
        const event = items[0] as EventEnvelope | undefined;
        return event?.seq === seq ? (
          <Envelope model={model} event={event} />
        ) : (
          <Empty text={`Event ${count(seq)} not found.`} />
        );
      }}
    </Loaded>
  );
}

function Envelope({ model, event }: { model: RunModel; event: EventEnvelope }) {
  const { seq, event_type, step_run_id: run, iteration, actor } = event;
  return (
    <>
      <Heading title={event_type}>
        <EventLink model={model} seq={seq} text={`event ${count(seq)}`} />
        <Moment at={event.timestamp} withMillis />
        {run && (
          <SelectLink run={nameOf(run)} item={iteration}>
            {nameOf(run)}
            {iteration !== null && `, item ${count(iteration)}`}
          </SelectLink>
        )}
        {actor && <span>by {actorWords(actor)}</span>}
      </Heading>
      {DECISIONS.includes(event_type) && <Explained model={model} seq={seq} />}
      <div class="padded">
        <section>
          <h3>Payload</h3>
          <Value value={event.payload} label={`Payload of event ${seq}`} prefix="" />
        </section>
        <section>
          <h3>Event</h3>
          <Value value={event} label={`Event ${seq}`} prefix="" />
        </section>
      </div>
    </>
  );
}

/** `fetch#1` of an id that may have the execution before it. */
function nameOf(id: string): string {
  return id.slice(id.lastIndexOf("/") + 1);
}

function Explained({ model, seq }: { model: RunModel; seq: number }) {
  const { data } = useResource<Explanation>(partPath(model, "explain", { seq }));
  const decisions = data.value?.decisions ?? [];
  if (!decisions.length) return null;
  return (
    <div class="why">
      <ol class="decisions">
        {decisions.map((decision) => (
          <DecisionView key={decision.seq} model={model} decision={decision} />
        ))}
      </ol>
    </div>
  );
}
