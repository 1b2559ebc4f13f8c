/** Draws the histogram and the markers of the history slider. */

import type { Outline } from "../../api/types.gen.ts";
import type { Drawing } from "../../parts/canvas.ts";
import { bars, glyphs, type MarkerKind, type Scale, shareOf } from "./scale.ts";

export const HANDLE = 12; // width of the handle in pixels: the scale begins and ends in its middle
const MARKERS = 14; // height of the row of markers
const PITCH = 3;
const GLYPH = 9;

const MARKER_COLOUR: Record<MarkerKind, string> = {
  failure: "failed",
  retry: "waiting",
  signal: "accent",
  pause: "quiet",
  resume: "quiet",
  lost: "held",
  fork: "accent",
  cancel: "failed",
};

/** Strokes and fills of each kind in a box from -4 to 4; the shapes differ, not only the colours. */
const SHAPES: Record<MarkerKind, { path: string; filled: boolean }> = {
  failure: { path: "M-3 -3L3 3M3 -3L-3 3", filled: false },
  retry: { path: "M3 -1A3 3 0 1 0 3 1.5M3.4 -3.4V-0.6H0.6", filled: false },
  signal: { path: "M-3.5 -3.5H3.5L0 3.5Z", filled: true },
  pause: { path: "M-2 -3.5V3.5M2 -3.5V3.5", filled: false },
  resume: { path: "M-2.5 -3.5L3.5 0L-2.5 3.5Z", filled: true },
  lost: { path: "M0 -4L4 0L0 4L-4 0Z", filled: false },
  fork: { path: "M0 4V0M0 0L-3 -4M0 0L3 -4", filled: false },
  cancel: { path: "M-3.5 -3.5H3.5V3.5H-3.5ZM-3.5 3.5L3.5 -3.5", filled: false },
};

export function paintHistory(drawing: Drawing, outline: Outline, scale: Scale, at: number): void {
  const { width } = drawing;
  const place = (share: number) => HANDLE / 2 + share * (width - HANDLE);
  paintBars(drawing, outline, scale, place, place(shareOf(outline, scale, at)));
  paintMarkers(drawing, outline, scale, place);
}

function paintBars(
  { context, width, height, colour }: Drawing,
  outline: Outline,
  scale: Scale,
  place: (share: number) => number,
  position: number,
): void {
  const floor = height - MARKERS;
  const shown = bars(outline, scale, Math.max(1, Math.floor((width - HANDLE) / PITCH)));
  const pitch = (width - HANDLE) / Math.max(1, shown.length);
  const thick = Math.max(1.5, Math.min(6, pitch - 1));
  for (const bar of shown) {
    if (!bar.height) continue;
    const x = place(bar.share);
    const tall = 3 + bar.height * (floor - 5);
    context.globalAlpha = bar.errors ? 1 : x <= position ? 0.7 : 0.4;
    context.fillStyle = colour(bar.errors ? "failed" : x <= position ? "accent" : "strong");
    context.fillRect(x - thick / 2, floor - tall, thick, tall);
    if (bar.errors) context.clearRect(x - thick / 2, floor - tall / 2 - 1, thick, 2); // the notch: not colour alone
  }
  context.globalAlpha = 1;
  context.fillStyle = colour("line");
  context.fillRect(0, floor, width, 1);
}

function paintMarkers(
  { context, width, height, colour }: Drawing,
  outline: Outline,
  scale: Scale,
  place: (share: number) => number,
): void {
  context.lineWidth = 1.6;
  context.lineCap = "round";
  context.lineJoin = "round";
  for (const glyph of glyphs(outline, scale, Math.max(1, Math.floor(width / (GLYPH + 2))))) {
    const kind = glyph.kind as MarkerKind;
    const shape = SHAPES[kind];
    if (!shape) continue;
    context.save();
    context.translate(place(glyph.share), height - MARKERS / 2 + 1);
    context.fillStyle = context.strokeStyle = colour(MARKER_COLOUR[kind]);
    const path = new Path2D(shape.path);
    if (shape.filled) context.fill(path);
    else context.stroke(path);
    context.restore();
  }
}
