/** The part of a graph that its pane shows: zoom and pan. Pure but for the signals. */

import { computed, signal } from "@preact/signals";
import type { Graph, GraphEdge } from "../../api/types.gen.ts";
import type { Detail } from "../../parts/graph/box.tsx";

export interface Rect {
  x: number;
  y: number;
  w: number;
  h: number;
}

const [LEAST, MOST, STEP] = [0.25, 2.5, 1.25]; // the minimum is relative to the zoom that shows the whole graph
const MARGIN = 24;
/** The rendered region grows and moves in steps of this many pixels, so that panning rarely changes it. */
const CELL = 400;

export class Viewport {
  readonly #graph: { width: number; height: number };
  /** Pixels from the corner of the pane to the corner of the graph, and the scale. */
  readonly view = signal({ x: 0, y: 0, zoom: 1 });
  readonly size = signal({ w: 0, h: 0 });
  /** Below 70 % boxes have names and status only, below 35 % they are shapes. */
  readonly detail = computed<Detail>(() => {
    const { zoom } = this.view.value;
    return zoom >= 0.7 ? "full" : zoom >= 0.35 ? "names" : "shapes";
  });
  /** The rendered area, in the units of the graph: slightly larger than the visible one. */
  readonly #cells = computed(() => {
    const { x, y, zoom } = this.view.value;
    const { w, h } = this.size.value;
    const first = (start: number) => Math.floor(-start / zoom / CELL) - 1;
    const last = (start: number, length: number) => Math.ceil((length - start) / zoom / CELL) + 1;
    return [first(x), first(y), last(x, w), last(y, h)].join(" ");
  });
  readonly region = computed<Rect>(() => {
    const [left = 0, top = 0, right = 0, bottom = 0] = this.#cells.value.split(" ").map(Number);
    return { x: left * CELL, y: top * CELL, w: (right - left) * CELL, h: (bottom - top) * CELL };
  });

  constructor(graph: { width: number; height: number }) {
    this.#graph = graph;
  }

  panBy(dx: number, dy: number): void {
    const { x, y, zoom } = this.view.peek();
    this.view.value = { x: x + dx, y: y + dy, zoom };
  }

  /** Zooms by a factor; the point of the pane stays where it is. */
  zoomBy(factor: number, at: { x: number; y: number } = this.#middle()): void {
    const { x, y, zoom } = this.view.peek();
    const next = Math.min(MOST, Math.max(LEAST * this.#fitting(), zoom * factor));
    const ratio = next / zoom;
    this.view.value = { x: at.x - (at.x - x) * ratio, y: at.y - (at.y - y) * ratio, zoom: next };
  }

  zoomIn = (): void => this.zoomBy(STEP);
  zoomOut = (): void => this.zoomBy(1 / STEP);
  reset = (): void => this.zoomBy(1 / this.view.peek().zoom);

  /** Shows all of the graph, at most in its original size. */
  fit = (): void => {
    const { w, h } = this.size.peek();
    if (!w || !h) return;
    const zoom = this.#fitting();
    const y = Math.max(MARGIN / 2, (h - this.#graph.height * zoom) / 3);
    this.view.value = { x: (w - this.#graph.width * zoom) / 2, y, zoom };
  };

  /** Begins with all of the graph, or with a readable part around a box if there is too much of it. */
  open(focus: Rect | undefined): void {
    this.fit();
    if (!focus || this.view.peek().zoom >= 0.5) return;
    this.view.value = { ...this.view.peek(), zoom: 0.8 };
    this.center(focus);
  }

  center(box: Rect): void {
    const { zoom } = this.view.peek();
    const { w, h } = this.size.peek();
    this.view.value = { x: w / 2 - (box.x + box.w / 2) * zoom, y: h / 2 - (box.y + box.h / 2) * zoom, zoom };
  }

  /** Moves as little as needed for a box to be visible. */
  reveal(box: Rect): void {
    const { x, y, zoom } = this.view.peek();
    const { w, h } = this.size.peek();
    const shift = (start: number, length: number, room: number) =>
      start < MARGIN ? MARGIN - start : Math.min(0, room - MARGIN - start - length);
    this.panBy(shift(box.x * zoom + x, box.w * zoom, w), shift(box.y * zoom + y, box.h * zoom, h));
  }

  #middle(): { x: number; y: number } {
    const { w, h } = this.size.peek();
    return { x: w / 2, y: h / 2 };
  }

  /** The zoom that shows all of the graph. */
  #fitting(): number {
    const { w, h } = this.size.peek();
    return Math.max(0.005, Math.min(1, (w - MARGIN) / this.#graph.width, (h - MARGIN) / this.#graph.height));
  }
}

export function overlaps(a: Rect, b: Rect): boolean {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

/** The arcs that may be in a region: a line stays between its boxes, but for loops and lines that lead back. */
export function edgesNear({ nodes, edges }: Graph, region: Rect): GraphEdge[] {
  return edges.filter(({ source, target, reversed }) => {
    const [from, to] = [nodes[source], nodes[target]];
    if (!from || !to || reversed || source === target) return true;
    const [x, y] = [Math.min(from.x, to.x), Math.min(from.y, to.y)];
    const [right, bottom] = [Math.max(from.x + from.w, to.x + to.w), Math.max(from.y + from.h, to.y + to.h)];
    return overlaps({ x, y, w: right - x, h: bottom - y }, region);
  });
}
