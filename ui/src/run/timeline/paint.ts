/** Draws the rows and the axis of the timeline. */

import type { Outline } from "../../api/types.gen.ts";
import type { Drawing } from "../../parts/canvas.ts";
import { duration } from "../../text/time.ts";
import { type Axis, pixelOf, ticksOf } from "./axis.ts";
import type { TimelineRow } from "./rows.ts";
import { type Band, bandOf, type Segment, type Span, segmentsOf, stepBand } from "./spans.ts";

const BAR = 10; // height in pixels
const toneOf = (status: string) =>
  status === "waiting" ? "running" : /^(succeeded|failed|running)$/.test(status) ? status : "quiet";

export interface Scene {
  axis: Axis;
  outline: Outline;
  end: number; // of bars that go on
  at: number; // time of the event of the view
  isPast: boolean;
  selected: string; // a step run or step
}

export function paintRow(drawing: Drawing, row: TimelineRow, scene: Scene): void {
  paintGaps(drawing, scene.axis);
  if (row.kind === "step") {
    const band = row.spans.length ? null : stepBand(scene.outline, row.step);
    if (band) paintBand(drawing, band, scene, scene.end, "running");
    for (const span of row.spans) paintSpan(drawing, span, scene);
  } else if (row.kind === "run") paintSpan(drawing, row.span, scene);
  else if (row.kind === "task") paintAttempts(drawing, row, scene);
  paintLater(drawing, scene);
}

/** The time after the event of the view is pale; the event itself is a line. */
function paintLater({ context, width, height, colour }: Drawing, { axis, at, isPast }: Scene): void {
  const x = Math.round(pixelOf(axis, at));
  if (isPast && x < width) {
    context.globalAlpha = 0.6;
    context.fillStyle = colour("paper");
    context.fillRect(x, 0, width - x, height);
    context.globalAlpha = 1;
  }
  context.fillStyle = colour("accent");
  if (isPast && x >= -1 && x <= width + 1) context.fillRect(x - 1, 0, 2, height);
}

function paintGaps({ context, height, colour }: Drawing, { pieces }: Axis): void {
  context.fillStyle = colour("sunken");
  for (const { left, right, isGap } of pieces) if (isGap) context.fillRect(left + 2, 0, right - left - 4, height);
}

function paintSpan(drawing: Drawing, span: Span, scene: Scene): void {
  const { context, width, height, colour } = drawing;
  const { axis, end } = scene;
  const last = span.ended >= 0 ? span.ended : end;
  const [left, right] = [
    pixelOf(axis, span.scheduled),
    Math.max(pixelOf(axis, last), pixelOf(axis, span.scheduled) + 2),
  ];
  if (right < 0 || left > width) return;
  const segments = segmentsOf(span, end);
  if (span.loop) {
    context.save();
    clipToWork(drawing, segments, axis);
    paintBand(drawing, bandOf(span.loop, scene.outline), scene, last, toneOf(span.status));
    context.restore();
  }
  for (const segment of segments)
    if (!span.loop || segment.kind !== "work") paintSegment(drawing, span.status, segment, axis);
  if (span.status === "failed") cross(drawing, right, colour("failed"));
  if (span.isCritical) {
    context.fillStyle = colour("ink-2");
    context.fillRect(Math.max(0, left), height - 4, Math.min(width, right) - Math.max(0, left), 1.5);
  }
}

/** Leaves out the times in which a loop waits: the points of its band are too few to show them. */
function clipToWork({ context, height }: Drawing, segments: Segment[], axis: Axis): void {
  context.beginPath();
  for (const { from, to, kind } of segments)
    if (kind === "work") context.rect(pixelOf(axis, from), 0, pixelOf(axis, to) - pixelOf(axis, from) + 1, height);
  context.clip();
}

function paintSegment(drawing: Drawing, status: string, { from, to, kind }: Segment, axis: Axis): void {
  const { context, height, colour } = drawing;
  const [x, wide, top] = [
    pixelOf(axis, from),
    Math.max(1.5, pixelOf(axis, to) - pixelOf(axis, from)),
    (height - BAR) / 2,
  ];
  if (kind === "work") {
    context.fillStyle = colour(toneOf(status));
    context.fillRect(x, top, wide, BAR);
    if (status === "failed") hatch(drawing, x, top, wide);
  } else if (kind === "retry") {
    context.fillStyle = colour("waiting");
    context.fillRect(x, height / 2 - 0.75, wide, 1.5);
  } else {
    context.strokeStyle = colour(kind === "worker" ? "quiet" : "waiting");
    context.lineWidth = 1.25;
    context.setLineDash(kind === "worker" ? [1.5, 2] : [5, 3]);
    context.strokeRect(x + 0.5, top + 0.5, Math.max(1, wide - 1), BAR - 1);
    context.setLineDash([]);
  }
}

function hatch({ context, colour }: Drawing, x: number, top: number, wide: number): void {
  context.save();
  context.beginPath();
  context.rect(x, top, wide, BAR);
  context.clip();
  context.strokeStyle = colour("paper");
  context.globalAlpha = 0.55;
  context.lineWidth = 1;
  context.beginPath();
  for (let at = Math.max(0, x) - BAR; at < Math.min(x + wide, 4000); at += 5) {
    context.moveTo(at, top + BAR);
    context.lineTo(at + BAR, top);
  }
  context.stroke();
  context.restore();
}

function cross({ context, height, colour }: Drawing, x: number, tone: string): void {
  const shape = new Path2D("M-3.5 -3.5L3.5 3.5M3.5 -3.5L-3.5 3.5");
  context.save();
  context.translate(x + 1, height / 2);
  context.lineCap = "round";
  for (const [width, style] of [
    [5, colour("paper")],
    [2, tone],
  ] as const) {
    context.lineWidth = width;
    context.strokeStyle = style;
    context.stroke(shape);
  }
  context.restore();
}

function paintBand(drawing: Drawing, band: Band, { axis }: Scene, last: number, tone: string): void {
  const { context, height, colour } = drawing;
  const [floor, most] = [height - 6, height - 10];
  context.fillStyle = colour(tone);
  context.globalAlpha = 0.75;
  for (const [point, from] of band.times.entries()) {
    const share = band.heights[point]!;
    if (from > last) break; // the end of the run is a point of every loop
    const x = pixelOf(axis, from);
    const wide = Math.max(1, pixelOf(axis, Math.max(from, Math.min(band.times[point + 1] ?? last, last))) - x);
    const tall = share ? Math.max(4, share * most) : 2;
    context.fillRect(x, floor - tall, wide, tall);
  }
  context.globalAlpha = 1;
  context.fillRect(
    pixelOf(axis, band.times[0] ?? 0),
    floor,
    pixelOf(axis, last) - pixelOf(axis, band.times[0] ?? 0),
    1,
  );
  context.fillStyle = colour("failed");
  for (const time of band.failures) context.fillRect(pixelOf(axis, time) - 0.75, 3, 1.5, height - 6);
}

function paintAttempts(drawing: Drawing, row: TimelineRow & { kind: "task" }, { axis, outline, end }: Scene): void {
  const { context, height, colour } = drawing;
  const started = Date.parse(outline.started);
  const top = (height - BAR) / 2 + 1;
  let before: number | null = null;
  for (const attempt of row.attempts) {
    const from = Date.parse(attempt.started) - started;
    const to = attempt.duration_ms === null ? end : from + attempt.duration_ms;
    const x = pixelOf(axis, from);
    if (before !== null) {
      context.fillStyle = colour("waiting");
      context.fillRect(before, height / 2, Math.max(0, x - before), 1.5);
    }
    const wide = Math.max(1.5, pixelOf(axis, to) - x);
    const isFailed = attempt.status === "error";
    context.fillStyle = colour(isFailed ? "failed" : attempt.duration_ms === null ? "running" : "succeeded");
    context.fillRect(x, top, wide, BAR - 2);
    if (isFailed) cross(drawing, x + wide, colour("failed"));
    before = x + wide;
  }
}

/** Times since the start, the lengths of collapsed gaps, and the event of the view. */
export function paintAxis({ context, width, height, colour }: Drawing, scene: Scene, font: string): void {
  const { axis, at, isPast } = scene;
  context.font = font;
  context.textBaseline = "middle";
  for (const { left, right, from, to, isGap } of axis.pieces) {
    if (!isGap) continue;
    context.fillStyle = colour("sunken");
    context.fillRect(left + 2, 0, right - left - 4, height);
    context.fillStyle = colour("ink-2");
    context.textAlign = "center";
    const [amount, unit] = duration(Math.min(to, scene.end) - from).split(" "); // the largest unit fits
    context.fillText(`${amount} ${unit}`, (left + right) / 2, height / 2, right - left - 4);
  }
  context.textAlign = "start";
  for (const { pixel, text } of ticksOf(axis, 80)) {
    context.fillStyle = colour("line");
    context.fillRect(pixel, height - 5, 1, 5);
    context.fillStyle = colour("ink-3");
    const end = axis.pieces.find((piece) => piece.isGap && piece.left >= pixel)?.left ?? width;
    if (pixel + 44 < end) context.fillText(text, pixel + 3, height / 2);
  }
  const x = Math.round(pixelOf(axis, at));
  if (!isPast || x < 0 || x > width) return;
  context.fillStyle = colour("accent");
  context.fillRect(x - 1, 0, 2, height);
  context.beginPath();
  context.arc(x, 5, 4, 0, 2 * Math.PI);
  context.fill();
}
