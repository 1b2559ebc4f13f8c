import assert from "node:assert/strict";
import { test } from "node:test";
import { overlaps, Viewport } from "./viewport.ts";

function viewport(width = 200, height = 100): Viewport {
  const viewport = new Viewport({ width, height });
  viewport.size.value = { w: 800, h: 400 };
  return viewport;
}

test("zooming keeps the point under the pointer", () => {
  const port = viewport();
  const before = (100 - port.view.value.x) / port.view.value.zoom;
  port.zoomBy(2, { x: 100, y: 50 });
  assert.equal((100 - port.view.value.x) / port.view.value.zoom, before);
  assert.equal(port.view.value.zoom, 2);
});

test("a small graph is shown in its size and a large one fits", () => {
  const small = viewport();
  small.fit();
  assert.equal(small.view.value.zoom, 1);
  const large = viewport(1552);
  large.fit();
  assert.equal(large.view.value.zoom, 0.5);
  assert.equal(large.detail.value, "names");
});

test("a graph is not zoomed out of sight, nor in without end", () => {
  const port = viewport(1552);
  port.zoomBy(0.001);
  assert.equal(port.view.value.zoom, 0.125);
  port.zoomBy(1000);
  assert.equal(port.view.value.zoom, 2.5);
});

test("a graph that cannot be read as a whole opens around a box", () => {
  const port = viewport(200, 20_000);
  port.open({ x: 50, y: 9_000, w: 100, h: 80 });
  assert.equal(port.view.value.zoom, 0.8);
  assert.ok(overlaps(port.region.value, { x: 50, y: 9_000, w: 100, h: 80 }));
  assert.ok(!overlaps(port.region.value, { x: 50, y: 100, w: 100, h: 80 }));
});

test("a box outside is moved just inside", () => {
  const port = viewport();
  port.reveal({ x: 900, y: 10, w: 100, h: 50 });
  assert.deepEqual(port.view.value, { x: -224, y: 14, zoom: 1 });
  port.reveal({ x: 900, y: 10, w: 100, h: 50 });
  assert.deepEqual(port.view.value, { x: -224, y: 14, zoom: 1 });
});
