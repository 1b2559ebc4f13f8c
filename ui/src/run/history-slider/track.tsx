/** The track of the history slider: a histogram with markers below a native range, which is the handle. */

import { useSignal } from "@preact/signals";
import type { Outline } from "../../api/types.gen.ts";
import { now } from "../../clock.ts";
import { useCanvas } from "../../parts/canvas.ts";
import { zone } from "../../preferences.ts";
import { count, counted } from "../../text/number.ts";
import { duration, moment, momentTitle } from "../../text/time.ts";
import { elapsedAt } from "../outline/time.ts";
import { HANDLE, paintHistory } from "./paint.ts";
import { glyphs, type Scale, seqOfValue, valueOfSeq, valueRange } from "./scale.ts";
import "./track.css";

interface TrackProps {
  label: string;
  outline: Outline;
  scale: Scale;
  here: number;
  ms: number; // the time of the event
  summary: string; // of the event; empty while it is loaded
  onMove: (seq: number) => void;
  onChoose: (seq: number) => void; // when the handle is released
}

export function Track({ label, outline, scale, here, ms, summary, onMove, onChoose }: TrackProps) {
  const hovered = useSignal<Hovered | null>(null);
  const canvas = useCanvas((drawing) => paintHistory(drawing, outline, scale, here));
  const { min, max } = valueRange(outline, scale);
  const text = [`Event ${count(here)} of ${count(outline.seq)}`, moment(ms, now.peek(), zone.value, true), summary];
  const seqOf = (input: HTMLInputElement) => seqOfValue(outline, scale, Number(input.value));
  return (
    <div
      class="history-track"
      onPointerMove={(event) => {
        hovered.value = event.pointerType === "mouse" ? hoveredAt(event, outline, scale) : null;
      }}
      onPointerLeave={() => {
        hovered.value = null;
      }}
    >
      <div class="history-canvas" aria-hidden="true">
        <canvas ref={canvas} />
      </div>
      <input
        type="range"
        aria-label={label}
        aria-valuetext={text.filter(Boolean).join(", ")}
        min={min}
        max={max}
        step={scale === "event" ? 1 : "any"}
        value={valueOfSeq(outline, scale, here)}
        onInput={(event) => onMove(seqOf(event.currentTarget))}
        onChange={(event) => onChoose(seqOf(event.currentTarget))}
      />
      {hovered.value && (
        <div class="history-hover" aria-hidden="true" style={{ transform: `translateX(${hovered.value.x}px)` }}>
          <span>{hovered.value.text}</span>
        </div>
      )}
    </div>
  );
}

interface Hovered {
  x: number;
  text: string;
}

/** What the pointer is over: the nearest marker, or the event there. */
function hoveredAt(event: PointerEvent & { currentTarget: HTMLElement }, outline: Outline, scale: Scale): Hovered {
  const box = event.currentTarget.getBoundingClientRect();
  const x = Math.max(0, Math.min(box.width, event.clientX - box.left));
  const share = Math.max(0, Math.min(1, (x - HANDLE / 2) / (box.width - HANDLE)));
  const { min, max } = valueRange(outline, scale);
  const near = glyphs(outline, scale, Math.max(1, Math.floor(box.width / 11))).filter(
    (glyph) => Math.abs(glyph.share - share) * (box.width - HANDLE) < 6,
  );
  const seq = near[0]?.seq ?? Math.round(seqOfValue(outline, scale, min + share * (max - min)));
  const parts = [`event ${count(seq)}`, `+${duration(elapsedAt(outline, seq))}`];
  if (near[0]) parts.push(near[0].count > 1 ? counted(near[0].count, "marker") : `${near[0].kind} ${near[0].entity}`);
  return { x, text: parts.join(", ") };
}

export function EventTime({ ms }: { ms: number }) {
  return (
    <time class="history-time" dateTime={new Date(ms).toISOString()} title={momentTitle(ms, now.value)}>
      {moment(ms, now.value, zone.value, true)}
    </time>
  );
}
