import assert from "node:assert/strict";
import { test } from "node:test";
import type { Graph, GraphEdge, GraphNode } from "../../api/types.gen.ts";
import { neighbour } from "./walk.ts";

const node = (name: string, x: number, y: number) => ({ name, x, y, w: 100, h: 60 }) as GraphNode;
const edge = (source: number, target: number, reversed = false) => ({ source, target, reversed }) as GraphEdge;
const GRAPH = {
  nodes: [node("start", 100, 0), node("left", 0, 100), node("right", 200, 100), node("end", 100, 200)],
  edges: [edge(3, 0, true), edge(0, 1), edge(0, 2), edge(1, 3), edge(2, 3), edge(3, 3)],
} as Graph;

test("arrow keys follow arcs down and up, and stay in a row left and right", () => {
  const to = (name: string, key: string) => neighbour(GRAPH, name, key)?.name;
  assert.equal(to("start", "ArrowDown"), "left");
  assert.equal(to("left", "ArrowRight"), "right");
  assert.equal(to("right", "ArrowRight"), undefined);
  assert.equal(to("right", "ArrowLeft"), "left");
  assert.equal(to("right", "ArrowUp"), "start");
  assert.equal(to("end", "ArrowDown"), "start");
  assert.equal(to("start", "ArrowUp"), "end");
});
