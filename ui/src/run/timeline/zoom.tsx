/** Drag to zoom, double-click to reset, Shift-wheel to pan. */

import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { type Axis, timeAt } from "./axis.ts";

const LEAST_PX = 5; // a shorter drag is a click
const LEAST_MS = 5;

type Range = [from: number, to: number];

export function useZoom(
  axis: Axis,
  end: number,
  box: RefObject<HTMLElement | null>,
  onZoom: (range: Range | null) => void,
) {
  const drag = useSignal<{ from: number; to: number } | null>(null);
  const wasDragged = useRef(false);
  const latest = useRef({ axis, end, onZoom });
  latest.current = { axis, end, onZoom };
  const left = () => {
    const scroller = box.current?.querySelector(".list-scroll");
    const label = box.current?.querySelector<HTMLElement>(".timeline-label");
    return (scroller?.getBoundingClientRect().left ?? 0) + (label?.offsetWidth ?? 0);
  };
  const pixel = (event: MouseEvent) => event.clientX - left();
  useEffect(() => {
    const element = box.current;
    const onWheel = (event: WheelEvent) => {
      if (!event.shiftKey) return;
      event.preventDefault();
      const { axis, end, onZoom } = latest.current;
      const range = axis.to - axis.from;
      const by = ((event.deltaX || event.deltaY) / axis.width) * range;
      const from = Math.max(0, Math.min(end - range, axis.from + by));
      onZoom([Math.round(from), Math.round(from + range)]);
    };
    element?.addEventListener("wheel", onWheel, { passive: false });
    return () => element?.removeEventListener("wheel", onWheel);
  }, [box.current]);
  const handlers = {
    onPointerDown: (event: PointerEvent) => {
      wasDragged.current = false;
      const from = pixel(event);
      if (event.button !== 0 || event.pointerType !== "mouse" || from < 0) return;
      const onMove = (move: PointerEvent) => {
        const to = Math.max(0, Math.min(latest.current.axis.width, pixel(move)));
        if (Math.abs(to - from) >= LEAST_PX) drag.value = { from: Math.min(from, to), to: Math.max(from, to) };
      };
      const onUp = () => {
        window.removeEventListener("pointermove", onMove);
        const range = drag.peek();
        drag.value = null;
        if (!range) return;
        wasDragged.current = true;
        const [start, end] = [range.from, range.to].map((at) => Math.round(timeAt(latest.current.axis, at)));
        latest.current.onZoom([start!, Math.max(end!, start! + LEAST_MS)]);
      };
      window.addEventListener("pointermove", onMove);
      window.addEventListener("pointerup", onUp, { once: true });
    },
    onDblClick: (event: MouseEvent) => {
      if (pixel(event) >= 0) onZoom(null);
    },
    onClickCapture: (event: MouseEvent) => {
      if (wasDragged.current) event.stopPropagation(); // the end of a drag selects nothing
      wasDragged.current = false;
    },
  };
  const marquee = drag.value && (
    <div
      class="timeline-marquee"
      style={{
        left: `${left() - (box.current?.getBoundingClientRect().left ?? 0) + drag.value.from}px`,
        width: `${drag.value.to - drag.value.from}px`,
      }}
    />
  );
  const timeOf = (event: MouseEvent) => {
    const at = pixel(event);
    return at < 0 ? null : timeAt(axis, at);
  };
  return { handlers, marquee, timeOf, reset: () => onZoom(null) };
}
