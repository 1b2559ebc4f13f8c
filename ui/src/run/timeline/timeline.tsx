/** The timeline: when each step run worked and waited. A tab of the panel. */

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { now } from "../../clock.ts";
import { useKeys } from "../../keys.ts";
import { parameter, setQuery } from "../../location.ts";
import { useCanvas } from "../../parts/canvas.ts";
import { List } from "../../parts/list.tsx";
import { Empty } from "../../parts/states.tsx";
import { millis } from "../../text/time.ts";
import { exactStates } from "../graph/state.ts";
import type { RunModel } from "../model.ts";
import { stepStates } from "../outline/outline.ts";
import { elapsedAt } from "../outline/time.ts";
import type { PanelProps } from "../panel/panel.tsx";
import { select, selection, whole } from "../selection.ts";
import { axisOf, rangeIn, roundedEnd } from "./axis.ts";
import { TimelineFooter } from "./footer.tsx";
import { TimelineLabel } from "./label.tsx";
import { TimelineLoader } from "./loading.ts";
import { paintAxis, paintRow, type Scene } from "./paint.ts";
import { type TimelineRow, timelineRows } from "./rows.ts";
import { busyTimes, spansOf, totalsOf, withDetails } from "./spans.ts";
import { useZoom } from "./zoom.tsx";
import "./timeline.css";

const ROW_PX = 24;
const END_PX = 8; // room for the cross at the end of a bar
const NEAR_PX = 4; // a click so close to a bar means the bar

export default function Timeline({ model }: PanelProps) {
  const runs = model.outline.value!.runs;
  return runs && !runs.step.length ? <Empty text="No step has started yet." /> : <Chart model={model} />;
}

function Chart({ model }: PanelProps) {
  const outline = model.outline.value!;
  const loader = useMemo(() => new TimelineLoader(model), [model]);
  const expanded = model.expandedRows;
  const active = useSignal("");
  const expandsGaps = useSignal(false);
  const { box, width } = useChartWidth();
  useKeys(
    "run",
    {
      gaps: () => {
        expandsGaps.value = !expandsGaps.peek();
      },
    },
    [],
  );
  useEffect(() => loadExpanded(model, loader, expanded.value), [model.settled.value, expanded.value]);

  const [seq, isPast] = [model.at.value, model.isPast.value];
  const bare = useMemo(() => spansOf(outline, seq), [outline, seq]);
  const started = Date.parse(outline.started);
  const spans = bare.map((span) => {
    const details = expanded.value.size ? loader.details(span.run) : undefined;
    return details ? withDetails(span, details, started) : span;
  });
  const elapsed = elapsedOf(model);
  const busy = useMemo(() => busyTimes(outline, spans, elapsed), [outline, elapsed]);
  const isIdle = model.hasEnded.value || !busy.length || busy.at(-1)![1] < elapsed;
  const end = isIdle ? elapsed : roundedEnd(elapsed);
  if (!isIdle) busy.at(-1)![1] = end; // the time ahead is no gap
  const [from, to] = rangeIn(end, whole(parameter("from")), whole(parameter("to")));
  const axis = useMemo(
    () => axisOf(from, Math.max(to, from + 1), width, busy, !expandsGaps.value),
    [from, to, width, busy, expandsGaps.value],
  );
  const state = model.state.value;
  const states = state?.seq === seq ? exactStates(state) : stepStates(outline, seq);
  const rows = timelineRows(outline, spans, states, expanded.value, loader);
  const { run, step } = selection.value;
  const at = elapsedAt(outline, seq);
  const scene: Scene = { axis, outline, end: elapsed, at, isPast, selected: run || step };
  const header = useCanvas((drawing) =>
    paintAxis(drawing, scene, `12px ${getComputedStyle(document.body).fontFamily}`),
  );
  const toggle = (key: string) => {
    const next = new Set(expanded.peek());
    if (!next.delete(key)) next.add(key);
    expanded.value = next;
  };
  const zoom = useZoom(axis, end, box, (range) => setQuery({ from: range?.[0] ?? null, to: range?.[1] ?? null }));
  const place = rows.findIndex((row) => row.key === active.value);
  return (
    <div
      ref={box}
      class="timeline"
      role="group"
      aria-label="Timeline"
      {...zoom.handlers}
      onKeyDown={(event) => {
        const row = rows[place];
        const opens = event.key === "ArrowRight" && !row?.isExpanded;
        const closes = event.key === "ArrowLeft" && row?.isExpanded;
        if (!row?.isExpandable || event.shiftKey || !(opens || closes)) return;
        event.preventDefault();
        toggle(row.key);
      }}
    >
      <List
        label="Timeline"
        total={rows.length}
        rowHeight={ROW_PX}
        active={place}
        rowKey={(number) => rows[number]!.key}
        rowClass={(number) => (isSelected(rows[number]!, run, step) ? "timeline-row selected" : "timeline-row")}
        columns={
          <div class="timeline-header" aria-hidden="true">
            <canvas ref={header} style={{ width: `${width + END_PX}px` }} />
          </div>
        }
        onActive={(number) => {
          active.value = rows[number]!.key;
        }}
        onOpen={(number, event) => {
          const row = rows[number]!;
          if (row.kind === "more") loader.loadRuns(row.step);
          else open(row, event instanceof MouseEvent ? zoom.timeOf(event) : null, axis.width, axis.to - axis.from);
        }}
      >
        {(number) => (
          <>
            <TimelineLabel
              row={rows[number]!}
              end={isPast ? at : elapsed}
              isPast={isPast}
              onToggle={() => toggle(rows[number]!.key)}
            />
            <TimelineBar row={rows[number]!} scene={scene} />
          </>
        )}
      </List>
      {zoom.marquee}
      <TimelineFooter
        totals={outline.runs ? totalsOf(spans, elapsed) : null}
        isPast={isPast}
        isZoomed={parameter("from") !== "" || parameter("to") !== ""}
        hasGaps={expandsGaps.value || axis.pieces.some((piece) => piece.isGap)}
        expandsGaps={expandsGaps}
        onReset={zoom.reset}
      />
    </div>
  );
}

function TimelineBar({ row, scene }: { row: TimelineRow; scene: Scene }) {
  const canvas = useCanvas((drawing) => paintRow(drawing, row, scene));
  return (
    <div class="timeline-bar" aria-hidden="true">
      <canvas ref={canvas} style={{ width: `${scene.axis.width + END_PX}px` }} />
    </div>
  );
}

/** How long the run has lasted: until its end, its last event, or now. */
function elapsedOf(model: RunModel): number {
  const outline = model.outline.value!;
  const started = Date.parse(outline.started);
  const last = elapsedAt(outline, outline.seq);
  const ended = millis(outline.ended);
  if (ended !== null) return Math.max(last, ended - started);
  return Math.max(last, now.value - started);
}

/** The width of the chart beside the labels. */
function useChartWidth() {
  const box = useRef<HTMLDivElement>(null);
  const width = useSignal(600);
  useLayoutEffect(() => {
    const scroller = box.current?.querySelector(".list-scroll");
    if (!scroller) return;
    const measure = () => {
      const label = box.current?.querySelector<HTMLElement>(".timeline-label")?.offsetWidth ?? 260;
      width.value = Math.max(40, scroller.clientWidth - label - END_PX);
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(scroller);
    return () => observer.disconnect();
  }, []);
  return { box, width: width.value };
}

function loadExpanded(model: RunModel, loader: TimelineLoader, expanded: ReadonlySet<string>): void {
  const outline = model.outline.peek();
  for (const key of expanded) {
    if (key.includes("#")) loader.loadDetails(key);
    else if (outline && !outline.runs) {
      if (!loader.runs(key)) loader.loadRuns(key);
    } else if (outline?.runs) {
      const place = outline.steps.indexOf(key);
      const own = outline.runs.step.flatMap((step, row) => (step === place ? [row] : []));
      if (own.length === 1) loader.loadDetails(`${key}#${outline.runs.n[own[0]!]}`);
    }
  }
}

function isSelected(row: TimelineRow, run: string, step: string): boolean {
  if (row.kind === "step") return row.step === step && (!run || (row.spans.length === 1 && row.spans[0]!.run === run));
  return row.kind === "run" && row.span.run === run;
}

/** Selects the subject of a row; of a step with several step runs, the one whose bar was clicked. */
function open(row: TimelineRow, time: number | null, width: number, range: number): void {
  if (row.kind === "run") select({ step: row.span.step, run: row.span.run });
  else if (row.kind === "task") select({ step: row.span.step, run: row.span.run, task: row.visit.task });
  else if (row.kind === "step") {
    const near = (NEAR_PX * range) / width;
    const hit = row.spans.find(
      ({ scheduled, ended }) => time !== null && time >= scheduled - near && (ended < 0 || time <= ended + near),
    );
    const span = row.spans.length === 1 ? row.spans[0] : hit;
    select(span ? { step: row.step, run: span.run } : { step: row.step });
  }
}
