/** Terminal output as text with colours: colour codes are mapped to the palette, other control codes are removed. Pure. */

import { printable } from "./printable.ts";

const HUES = ["grey", "red", "green", "yellow", "blue", "magenta", "cyan", "white"] as const;
type Hue = (typeof HUES)[number];

export interface Span {
  text: string;
  color: Hue | null;
  background: Hue | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
}

type Style = Omit<Span, "text"> & { inverse: boolean };

const PLAIN: Style = {
  color: null,
  background: null,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  inverse: false,
};

// CSI with its parameters; OSC, DCS and the like up to their end; other escapes; the same as C1 characters.
const CONTROL =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to remove
  /(?:\u001b\[|\u009b)([0-?]*)[ -/]*([@-~])|(?:\u001b[\]PX^_]|[\u0090\u0098\u009d-\u009f])[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c|$)|\u001b[ -/]*[0-~]?|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u008f\u0091-\u0097\u0099-\u009c]/g;

/** A line as spans. A carriage return begins the line again, as on a terminal: text before it is overwritten. */
export function ansiSpans(line: string): Span[] {
  const spans: Span[] = [];
  let style = PLAIN;
  let end = 0;
  const text = overwritten(line);
  const put = (part: string) => {
    if (part) spans.push(spanOf(part, style));
  };
  for (const match of text.matchAll(CONTROL)) {
    put(text.slice(end, match.index));
    end = match.index + match[0].length;
    if (match[2] === "m") style = styled(style, match[1] ?? "");
  }
  put(text.slice(end));
  return spans;
}

/** The text alone, for copying and searching. */
export function withoutCodes(line: string): string {
  return printable(overwritten(line).replace(CONTROL, ""));
}

function overwritten(line: string): string {
  const text = line.replace(/\r+$/, "");
  return text.slice(text.lastIndexOf("\r") + 1);
}

function spanOf(text: string, { inverse, ...style }: Style): Span {
  const shown = { ...style, text: printable(text) };
  return inverse ? { ...shown, color: style.background ?? "white", background: style.color ?? "grey" } : shown;
}

function styled(style: Style, parameters: string): Style {
  const codes = parameters.split(/[;:]/).map((text) => Number(text) || 0);
  let next = { ...style };
  for (let place = 0; place < codes.length; place += 1) {
    const code = codes[place] ?? 0;
    if (code === 38 || code === 48) {
      const [hue, length] = extended(codes.slice(place + 1));
      next = { ...next, [code === 38 ? "color" : "background"]: hue };
      place += length;
    } else next = { ...next, ...changed(code) };
  }
  return next;
}

const CHANGES: Record<number, Partial<Style>> = {
  0: PLAIN,
  1: { bold: true },
  2: { dim: true },
  3: { italic: true },
  4: { underline: true },
  7: { inverse: true },
  22: { bold: false, dim: false },
  23: { italic: false },
  24: { underline: false },
  27: { inverse: false },
  39: { color: null },
  49: { background: null },
};

function changed(code: number): Partial<Style> {
  const [range, hue] = [Math.floor(code / 10), HUES[code % 10]];
  if (hue && (range === 3 || range === 9)) return { color: hue };
  if (hue && (range === 4 || range === 10)) return { background: hue };
  return CHANGES[code] ?? {};
}

/** The hue of `5;N` (256 colours) or `2;R;G;B`, and how many numbers that took. */
function extended([kind, ...rest]: number[]): [hue: Hue | null, length: number] {
  const [first = 0, second = 0, third = 0] = rest;
  if (kind === 2) return [nearest(first, second, third), 4];
  if (kind !== 5) return [null, 1];
  if (first < 16) return [HUES[first % 8] ?? null, 2];
  if (first >= 232) return [first < 244 ? "grey" : "white", 2];
  const cube = first - 16;
  const level = (n: number) => (n ? n * 40 + 55 : 0);
  return [nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)), 2];
}

function nearest(red: number, green: number, blue: number): Hue {
  const [most, least] = [Math.max(red, green, blue), Math.min(red, green, blue)];
  if (most - least < 40) return most < 128 ? "grey" : "white";
  const strong = (value: number) => value > (most + least) / 2;
  const place = (strong(red) ? 1 : 0) + (strong(green) ? 2 : 0) + (strong(blue) ? 4 : 0);
  return HUES[place] ?? "white";
}
