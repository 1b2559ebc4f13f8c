import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

type Rgb = [number, number, number];
type Theme = "light" | "dark";

const TOKENS = new Map<string, Record<Theme, string>>();
for (const [, name = "", light = "", dark = ""] of readFileSync(
  new URL("./tokens.css", import.meta.url),
  "utf8",
).matchAll(/--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)/g))
  TOKENS.set(name, { light, dark });

function colour(name: string, theme: Theme): Rgb {
  const hex = TOKENS.get(name)?.[theme];
  assert.ok(hex, `there is no token ${name}`);
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16) / 255) as Rgb;
}

const linear = (value: number) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
const luminance = ([r, g, b]: Rgb) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);

/** The contrast ratio of WCAG. */
function contrast(a: Rgb, b: Rgb): number {
  const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}

function ratio(name: string, on: string, theme: Theme): number {
  return Math.round(contrast(colour(name, theme), colour(on, theme)) * 10) / 10;
}

const THEMES: Theme[] = ["light", "dark"];

test("text and control borders have the contrast of the specification", () => {
  const table: [string, number, number][] = [
    ["strong", 3.7, 4.5],
    ["ink", 17.8, 14.8],
    ["ink-2", 8.4, 9.4],
    ["ink-3", 5.7, 6.4],
    ["accent", 6.6, 8.2],
  ];
  for (const [name, light, dark] of table) {
    assert.equal(ratio(name, "paper", "light"), light, `${name} in light`);
    assert.equal(ratio(name, "paper", "dark"), dark, `${name} in dark`);
  }
});

const SOFT = ["accent", "succeeded", "failed", "waiting", "held", "quiet"];

test("text on a soft background can be read", () => {
  for (const theme of THEMES)
    for (const name of SOFT) {
      const own = contrast(colour(name, theme), colour(`${name}-soft`, theme));
      assert.ok(own >= 4.5, `${name} on its soft background in ${theme}: ${own.toFixed(2)}`);
      const ink = contrast(colour("ink-3", theme), colour(`${name}-soft`, theme));
      assert.ok(ink >= 4.5, `ink-3 on ${name}-soft in ${theme}: ${ink.toFixed(2)}`);
    }
});

test("statuses have the contrast of the specification", () => {
  const table: [string, number, number][] = [
    ["succeeded", 6.5, 9.4],
    ["failed", 6.6, 7.8],
    ["waiting", 6.3, 10.8],
    ["held", 7.1, 9.1],
    ["quiet", 6.5, 8.2],
  ];
  for (const [name, light, dark] of table) {
    assert.equal(ratio(name, "paper", "light"), light, `${name} in light`);
    assert.equal(ratio(name, "paper", "dark"), dark, `${name} in dark`);
  }
});

// What people without one kind of cone see: the matrices of Machado, Oliveira and Fernandes (2009), linear RGB.
const BLIND: Record<string, [Rgb, Rgb, Rgb]> = {
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
};

/** Lightness and two opponent colours (CIELAB, D65). */
function lab([r, g, b]: Rgb): Rgb {
  const xyz = [
    (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047,
    0.2126 * r + 0.7152 * g + 0.0722 * b,
    (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883,
  ].map((value) => (value > 0.008856 ? Math.cbrt(value) : 7.787 * value + 16 / 116)) as Rgb;
  return [116 * xyz[1] - 16, 500 * (xyz[0] - xyz[1]), 200 * (xyz[1] - xyz[2])];
}

function distance(a: Rgb, b: Rgb, seen: [Rgb, Rgb, Rgb]): number {
  const [p, q] = [a, b].map((rgb) => {
    const light = rgb.map(linear) as Rgb;
    return lab(seen.map((row) => Math.max(0, row[0] * light[0] + row[1] * light[1] + row[2] * light[2])) as Rgb);
  }) as [Rgb, Rgb];
  return Math.hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]);
}

test("succeeded and failed differ for people with red-green colour blindness", () => {
  for (const theme of THEMES)
    for (const [name, seen] of Object.entries(BLIND)) {
      const found = Math.round(10 * distance(colour("succeeded", theme), colour("failed", theme), seen)) / 10;
      assert.ok(found >= 17, `${name}, ${theme}: ${found.toFixed(1)}`);
    }
});
