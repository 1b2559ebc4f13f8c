/** Times and durations as text: 24 h, one zone for the whole page. */

import { UNKNOWN } from "./number.ts";

type Zone = string; // an IANA name; "" is the zone of the browser

const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: Zone, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = zone + JSON.stringify(options);
  let found = formats.get(key);
  if (!found) {
    found = new Intl.DateTimeFormat("en-GB", { ...options, hourCycle: "h23", timeZone: zone || undefined });
    formats.set(key, found);
  }
  return found;
}

const DAY: Intl.DateTimeFormatOptions = { year: "numeric", month: "2-digit", day: "2-digit" };
const CLOCK: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", second: "2-digit" };

export function millis(text: string | null | undefined): number | null {
  if (!text) return null;
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? null : ms;
}

/** Today `12:03:41` (with milliseconds if asked), otherwise `14 Nov 12:03`, with the year if it is another one. */
export function moment(ms: number | null, now: number, zone: Zone, withMillis = false): string {
  if (ms == null) return UNKNOWN;
  const day = format(zone, DAY);
  if (day.format(ms) === day.format(now)) {
    const clock = format(zone, CLOCK).format(ms);
    return withMillis ? `${clock}.${String(Math.floor(ms) % 1000).padStart(3, "0")}` : clock;
  }
  const short: Intl.DateTimeFormatOptions = { day: "numeric", month: "short" };
  const year = format(zone, { year: "numeric" });
  if (year.format(ms) !== year.format(now)) short.year = "numeric";
  return `${format(zone, short).format(ms)} ${format(zone, { hour: "2-digit", minute: "2-digit" }).format(ms)}`;
}

/** The name of the zone at a time: `UTC`, `CET`, `GMT+9`. */
export function zoneName(zone: Zone, ms: number): string {
  const parts = format(zone, { timeZoneName: "short" }).formatToParts(ms);
  return parts.find(({ type }) => type === "timeZoneName")?.value ?? zone;
}

/** For tooltips: the UTC time in RFC 3339 and the age. */
export function momentTitle(ms: number | null, now: number): string {
  if (ms == null) return "";
  const age = now - ms;
  return `${new Date(ms).toISOString()}, ${age >= 0 ? `${duration(age)} ago` : `in ${duration(-age)}`}`;
}

/** `412 ms`, `38.2 s`, `3 min 39 s`, `1 h 2 min`, `2 d 4 h`. */
export function duration(ms: number | null | undefined): string {
  if (ms == null || ms < 0) return UNKNOWN;
  if (ms < 1000) return `${ms < 10 && ms > 0 && ms % 1 ? ms.toFixed(1) : Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  return wholeUnits(Math.round(ms / 1000));
}

/** A duration that ticks: whole seconds only, so that it does not flicker. */
export function runningDuration(ms: number): string {
  return ms < 60_000 ? `${Math.max(0, Math.floor(ms / 1000))} s` : wholeUnits(Math.floor(ms / 1000));
}

function wholeUnits(seconds: number): string {
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return pair(minutes, "min", seconds % 60, "s");
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return pair(hours, "h", minutes % 60, "min");
  return pair(Math.floor(hours / 24), "d", hours % 24, "h");
}

function pair(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small ? `${large} ${largeUnit} ${small} ${smallUnit}` : `${large} ${largeUnit}`;
}
