/** The time axis of the timeline: the visible range, with long idle gaps collapsed. Pure. */

import { duration } from "../../text/time.ts";

export const GAP_PX = 48;
const GAP_SHARE = 0.1; // of the visible range: shorter gaps stay

interface Piece {
  from: number;
  to: number;
  left: number;
  right: number;
  isGap: boolean;
}

export interface Axis {
  from: number;
  to: number;
  width: number;
  pieces: Piece[];
}

/** The range that the URL asks for, as far as it lies in the run; all of the run if it does not. */
export function rangeIn(end: number, from: number | null, to: number | null): [from: number, to: number] {
  const [start, stop] = [from ?? 0, Math.min(to ?? end, end)];
  return start < stop ? [start, stop] : [0, end];
}

export function axisOf(
  from: number,
  to: number,
  width: number,
  busy: readonly [number, number][],
  collapses: boolean,
): Axis {
  const range = Math.max(1, to - from);
  const most = Math.floor(width / 2 / GAP_PX);
  const gaps = collapses && busy.length ? gapsIn(from, from + range, busy, range * GAP_SHARE).slice(0, most) : [];
  gaps.sort((one, other) => one[0] - other[0]);
  const hidden = gaps.reduce((sum, [start, end]) => sum + end - start, 0);
  const scale = (width - gaps.length * GAP_PX) / Math.max(1, range - hidden);
  const pieces: Piece[] = [];
  let [time, left] = [from, 0];
  const add = (end: number, right: number, isGap: boolean) => {
    pieces.push({ from: time, to: end, left, right, isGap });
    [time, left] = [end, right];
  };
  for (const [start, end] of gaps) {
    if (start > time) add(start, left + (start - time) * scale, false);
    add(end, left + GAP_PX, true);
  }
  if (time < from + range || !pieces.length) add(from + range, width, false);
  return { from, to: from + range, width, pieces };
}

/** Times without work inside of a range, the longest first. */
function gapsIn(from: number, to: number, busy: readonly [number, number][], least: number): [number, number][] {
  const gaps: [number, number][] = [];
  let idleSince = from;
  for (const [start, end] of [...busy, [to, to] as const]) {
    const until = Math.min(start, to);
    if (until - idleSince >= least) gaps.push([idleSince, until]);
    idleSince = Math.max(idleSince, end);
    if (idleSince >= to) break;
  }
  // A little time stays visible on both sides of a gap, so that bars at its edges do not vanish in it.
  const idle = gaps.reduce((sum, [start, end]) => sum + end - start, 0);
  const margin = Math.min((to - from - idle) / 25, least / 20);
  const shrunk = gaps.map(([start, end]): [number, number] => [
    start > from ? start + margin : start,
    end < to ? end - margin : end,
  ]);
  return shrunk.sort((one, other) => other[1] - other[0] - (one[1] - one[0]));
}

/** The pixel of a time; times outside of the range are outside of the axis. */
export function pixelOf(axis: Axis, time: number): number {
  const piece = pieceAt(axis, (other) => time <= other.to);
  const range = piece.to - piece.from;
  return piece.left + (range ? ((time - piece.from) / range) * (piece.right - piece.left) : 0);
}

export function timeAt(axis: Axis, pixel: number): number {
  const piece = pieceAt(axis, (other) => pixel <= other.right);
  const width = piece.right - piece.left;
  return piece.from + (width ? ((pixel - piece.left) / width) * (piece.to - piece.from) : 0);
}

function pieceAt({ pieces }: Axis, isInside: (piece: Piece) => boolean): Piece {
  return pieces.find(isInside) ?? pieces.at(-1)!;
}

const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000,
  1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000,
];

interface Tick {
  time: number;
  pixel: number;
  text: string;
}

/** Round times with their pixels, at least `spacing` apart. */
export function ticksOf(axis: Axis, spacing: number): Tick[] {
  const ticks: Tick[] = [];
  const open = axis.pieces.filter((piece) => !piece.isGap && piece.right > piece.left);
  const first = open[0];
  if (!first) return ticks;
  const perPixel = (first.to - first.from) / (first.right - first.left);
  const day = STEPS.at(-1)!;
  const step = STEPS.find((width) => width >= perPixel * spacing) ?? Math.ceil((perPixel * spacing) / day) * day;
  for (const piece of open)
    for (let time = Math.ceil(piece.from / step) * step; time <= piece.to; time += step) {
      const pixel = pixelOf(axis, time);
      if (!ticks.length || pixel - ticks.at(-1)!.pixel >= spacing * 0.7)
        ticks.push({ time, pixel, text: tickText(time, step) });
    }
  return ticks;
}

/** A time with as many digits as tell it from the next one. */
function tickText(time: number, step: number): string {
  if (time < 1000) return time ? `${time} ms` : "0";
  if (time >= 60_000 && step >= 1000) return duration(time);
  const digits = Math.max(0, 4 - String(step).length);
  const minutes = Math.floor(time / 60_000) * 60_000;
  return `${minutes ? `${duration(minutes)} ` : ""}${((time - minutes) / 1000).toFixed(digits)} s`;
}

/** The end of the axis of a run in progress: it grows in steps, so that bars do not shrink all the time. */
export function roundedEnd(elapsed: number): number {
  let end = 1000;
  while (end < elapsed) end *= 1.25;
  return end;
}
