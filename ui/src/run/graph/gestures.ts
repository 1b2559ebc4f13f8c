/** Pan by drag, zoom by wheel and by pinch. */

import type { Viewport } from "./viewport.ts";

const SLOP = 4; // pixels that a click may move

export function followPointers(element: HTMLElement, port: Viewport): () => void {
  const pointers = new Map<number, { x: number; y: number }>();
  let isDrag = false;

  const inside = (event: MouseEvent) => {
    const box = element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const down = (event: PointerEvent) => {
    if (event.button !== 0) return;
    if (!pointers.size) isDrag = false;
    pointers.set(event.pointerId, inside(event));
  };
  const move = (event: PointerEvent) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const now = inside(event);
    const [dx, dy] = [now.x - before.x, now.y - before.y];
    if (!isDrag && pointers.size === 1 && Math.hypot(dx, dy) < SLOP) return;
    if (!isDrag) element.setPointerCapture(event.pointerId);
    isDrag = true;
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) port.zoomBy(distance(now, other) / Math.max(1, distance(before, other)), other);
    else port.panBy(dx, dy);
    pointers.set(event.pointerId, now);
  };
  const up = (event: PointerEvent) => pointers.delete(event.pointerId);
  const click = (event: MouseEvent) => {
    if (!isDrag) return;
    isDrag = false; // the click that ends a drag selects nothing
    event.stopPropagation();
    event.preventDefault();
  };
  const wheel = (event: WheelEvent) => {
    event.preventDefault();
    const pixels = event.deltaY * (event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1);
    port.zoomBy(Math.exp(-Math.max(-60, Math.min(60, pixels)) * (event.ctrlKey ? 0.01 : 0.003)), inside(event));
  };

  element.addEventListener("pointerdown", down);
  element.addEventListener("pointermove", move);
  element.addEventListener("pointerup", up);
  element.addEventListener("pointercancel", up);
  element.addEventListener("click", click, true);
  element.addEventListener("wheel", wheel, { passive: false });
  return () => {
    element.removeEventListener("pointerdown", down);
    element.removeEventListener("pointermove", move);
    element.removeEventListener("pointerup", up);
    element.removeEventListener("pointercancel", up);
    element.removeEventListener("click", click, true);
    element.removeEventListener("wheel", wheel);
  };
}

function distance(a: { x: number; y: number }, b: { x: number; y: number }): number {
  return Math.hypot(a.x - b.x, a.y - b.y);
}
