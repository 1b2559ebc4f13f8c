/** A canvas that fills its box: drawn again when its component, its size or the theme changes. */

import { effect } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { theme } from "../preferences.ts";

export interface Drawing {
  context: CanvasRenderingContext2D;
  width: number; // in CSS pixels
  height: number;
  colour: (token: string) => string;
}

export function useCanvas(draw: (drawing: Drawing) => void): RefObject<HTMLCanvasElement | null> {
  const canvas = useRef<HTMLCanvasElement>(null);
  const latest = useRef(draw);
  const planned = useRef(0);
  latest.current = draw;
  const plan = () => {
    planned.current ||= requestAnimationFrame(() => {
      planned.current = 0;
      if (canvas.current) paint(canvas.current, latest.current);
    });
  };
  useEffect(plan);
  useEffect(() => {
    const observer = new ResizeObserver(plan);
    if (canvas.current) observer.observe(canvas.current);
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    const onTheme = () => {
      colours.clear();
      plan();
    };
    dark.addEventListener("change", onTheme);
    const dispose = effect(() => {
      theme.value;
      onTheme();
    });
    return () => {
      observer.disconnect();
      dark.removeEventListener("change", onTheme);
      dispose();
      cancelAnimationFrame(planned.current);
    };
  }, []);
  return canvas;
}

function paint(canvas: HTMLCanvasElement, draw: (drawing: Drawing) => void): void {
  const [width, height, ratio] = [canvas.clientWidth, canvas.clientHeight, window.devicePixelRatio || 1];
  const context = canvas.getContext("2d");
  if (!context || !width || !height) return;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  draw({ context, width, height, colour: (token) => colourOf(canvas, token) });
}

const colours = new Map<string, string>();

/** The colour of a token of `look/tokens.css` in the current theme: a canvas does not understand variables. */
function colourOf(canvas: HTMLCanvasElement, token: string): string {
  let colour = colours.get(token);
  if (!colour) {
    canvas.style.color = `var(--${token})`;
    colour = getComputedStyle(canvas).color;
    colours.set(token, colour);
  }
  return colour;
}
