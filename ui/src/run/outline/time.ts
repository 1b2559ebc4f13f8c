/** Events and times of a run: the bins of its histogram know the time of their last event, between them it is
 *  interpolated. Runs of up to 512 events have one event per bin, so their times are exact. Pure. */

import type { HistogramColumns, Outline } from "../../api/types.gen.ts";

/** The bin of an event. */
export function binOf(histogram: HistogramColumns, seq: number): number {
  return Math.max(0, Math.min(Math.floor((seq - 1) / histogram.events_per_bin), histogram.events.length - 1));
}

/** Milliseconds from the start of the run to an event. */
export function elapsedAt({ histogram }: Outline, seq: number): number {
  if (!histogram.events.length) return 0;
  const bin = binOf(histogram, seq);
  const [from, to] = [histogram.end_ms[bin - 1] ?? 0, histogram.end_ms[bin]!];
  const first = bin * histogram.events_per_bin;
  const share = (seq - first) / Math.max(1, histogram.events[bin]!);
  return from + (to - from) * Math.max(0, Math.min(1, share));
}

/** The time of an event in milliseconds since 1970. */
export function timeOf(outline: Outline, seq: number): number {
  return Date.parse(outline.started) + Math.round(elapsedAt(outline, seq));
}

/** The last event up to some milliseconds after the start; at least the first one. */
export function seqAt(outline: Outline, elapsed: number): number {
  let [low, high] = [1, Math.max(1, outline.seq)];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (elapsedAt(outline, middle) <= elapsed) low = middle;
    else high = middle - 1;
  }
  return low;
}
