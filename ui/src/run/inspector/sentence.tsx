import type { ComponentChildren } from "preact";
import { Moment } from "../../parts/moment.tsx";
import { printable } from "../../text/printable.ts";
import type { RunModel } from "../model.ts";

const PARTS = /(`[^`]+`|\bevent \d+\b|\b\d{4}-\d\d-\d\dT[\d:.]+Z)/;

/** A sentence of the server: commands are set as code, the events it names can be opened, times are in the zone of the
 *  page. */
export function Sentence({ model, text }: { model: RunModel; text: string }) {
  return (
    <p>
      {printable(text)
        .split(PARTS)
        .map((part, place): ComponentChildren => {
          if (part.startsWith("`")) return <code key={place}>{part.slice(1, -1)}</code>;
          if (/^\d.*Z$/.test(part)) return <Moment key={place} at={part} />;
          if (PARTS.test(part))
            return <EventLink key={place} model={model} seq={Number(part.slice(6))} text={part} isInline />;
          return place === 0 ? capital(part) : part;
        })}
    </p>
  );
}

/** Sentences of the server begin small; names of steps stay as they are. */
function capital(text: string): string {
  return /^(it|token|there|nothing|no)\b/.test(text) ? text[0]?.toUpperCase() + text.slice(1) : text;
}

interface EventLinkProps {
  model: RunModel;
  seq: number;
  text: string;
  isInline?: boolean; // part of a sentence
}

/** A click moves the view to the event. */
export function EventLink({ model, seq, text, isInline }: EventLinkProps) {
  return (
    <button
      type="button"
      class={isInline ? "link" : "event-link"}
      title="Go to this event"
      onClick={() => model.moveTo(seq)}
    >
      {text}
    </button>
  );
}
