/** The scale of the history slider, by event number or by time, and what its histogram shows. Pure. */

import type { Marker, Outline } from "../../api/types.gen.ts";
import { elapsedAt, seqAt } from "../outline/time.ts";

export type Scale = "event" | "time";

/** The values of the slider: events, or milliseconds since the start. */
export function valueRange(outline: Outline, scale: Scale): { min: number; max: number } {
  if (scale === "event") return { min: 1, max: Math.max(1, outline.seq) };
  return { min: 0, max: Math.max(1, Math.ceil(outline.histogram.end_ms.at(-1) ?? 1)) };
}

export function valueOfSeq(outline: Outline, scale: Scale, seq: number): number {
  return scale === "event" ? seq : elapsedAt(outline, seq);
}

export function seqOfValue(outline: Outline, scale: Scale, value: number): number {
  return scale === "event" ? value : seqAt(outline, value);
}

/** Where an event is, from 0 to 1. */
export function shareOf(outline: Outline, scale: Scale, seq: number): number {
  const { min, max } = valueRange(outline, scale);
  return max === min ? 1 : Math.max(0, Math.min(1, (valueOfSeq(outline, scale, seq) - min) / (max - min)));
}

interface Bar {
  share: number; // of its middle
  height: number; // 0 to 1, the logarithm of the events per time
  errors: number;
}

/** At most `most` bars of equal width. On the scale of events, a high bar is a busy time and a low one a wait. */
export function bars(outline: Outline, scale: Scale, most: number): Bar[] {
  const { events, errors, end_ms, events_per_bin: width } = outline.histogram;
  if (!events.length) return [];
  const places = scale === "event" ? Math.min(most, outline.seq) : most;
  const rates = new Float64Array(places);
  const wrong = new Float64Array(places);
  const placeOf = (share: number) => Math.max(0, Math.min(places - 1, Math.floor(share * places)));
  if (scale === "event")
    for (let place = 0; place < places; place += 1) {
      const [from, to] = [(place / places) * outline.seq, ((place + 1) / places) * outline.seq];
      rates[place] = ((to - from) * 1000) / Math.max(1, elapsedAt(outline, to) - elapsedAt(outline, from));
    }
  const total = valueRange(outline, "time").max;
  for (const [bin, count] of events.entries()) {
    const end = placeOf((end_ms[bin] ?? 0) / total);
    if (scale === "time") {
      const begin = width === 1 ? end : placeOf((end_ms[bin - 1] ?? 0) / total);
      for (let place = begin; place <= end; place += 1) rates[place]! += count / (end - begin + 1);
    }
    wrong[scale === "time" ? end : placeOf((bin * width + count / 2) / outline.seq)]! += errors[bin] ?? 0;
  }
  const highest = Math.log1p(Math.max(...rates));
  return Array.from(rates, (rate, place) => ({
    share:
      places === 1 ? 1 : scale === "event" && places === outline.seq ? place / (places - 1) : (place + 0.5) / places,
    height: highest ? Math.log1p(rate) / highest : 0,
    errors: wrong[place]!,
  }));
}

/** Of markers that would cover each other, the first kind of this list is shown. */
const MARKER_KINDS = ["failure", "cancel", "fork", "lost", "pause", "signal", "retry", "resume"] as const;
export type MarkerKind = (typeof MARKER_KINDS)[number];

interface Glyph extends Marker {
  share: number;
  count: number; // of the markers that it stands for
}

/** The markers to draw, at most one in each of `slots` places. */
export function glyphs(outline: Outline, scale: Scale, slots: number): Glyph[] {
  const shown = new Map<number, Glyph>();
  const rank = (kind: string) => MARKER_KINDS.indexOf(kind as MarkerKind);
  for (const marker of outline.markers) {
    const share = shareOf(outline, scale, marker.seq);
    const slot = Math.min(slots - 1, Math.floor(share * slots));
    const there = shown.get(slot);
    if (!there) shown.set(slot, { ...marker, share, count: 1 });
    else if (rank(marker.kind) < rank(there.kind)) shown.set(slot, { ...marker, share, count: there.count + 1 });
    else there.count += 1;
  }
  return [...shown.values()];
}

/** The event of the next marker in a direction, null if there is none. */
export function neighbourMarker(outline: Outline, seq: number, direction: 1 | -1): number | null {
  let nearest: number | null = null;
  for (const marker of outline.markers) {
    const ahead = (marker.seq - seq) * direction;
    if (ahead > 0 && (nearest === null || ahead < (nearest - seq) * direction)) nearest = marker.seq;
  }
  return nearest;
}
