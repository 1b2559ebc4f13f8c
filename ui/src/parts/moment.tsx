import { now } from "../clock.ts";
import { zone } from "../preferences.ts";
import { oneLine } from "../text/printable.ts";
import { duration, millis, moment, momentTitle, runningDuration } from "../text/time.ts";

/** A time in the zone of the page; the tooltip adds UTC and age. */
export function Moment({ at, withMillis = false }: { at: string | number | null | undefined; withMillis?: boolean }) {
  const ms = typeof at === "number" ? at : millis(at);
  if (ms === null) return <span class="quiet">-</span>;
  return (
    <time dateTime={new Date(ms).toISOString()} title={momentTitle(ms, now.value)}>
      {moment(ms, now.value, zone.value, withMillis)}
    </time>
  );
}

/** A sentence of the server in one line, with its times in the zone of the page. */
export function withTimes(text: string): string {
  return oneLine(text).replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (time) => moment(millis(time), now.value, zone.value));
}

/** How long something took, or how long it runs until now. */
export function Elapsed({ from, to, ms }: { from?: string | null; to?: string | null; ms?: number | null }) {
  if (ms != null) return <span class="nowrap">{duration(ms)}</span>;
  const [start, end] = [millis(from), millis(to)];
  if (start === null) return <span class="quiet">-</span>;
  return <span class="nowrap">{end === null ? runningDuration(now.value - start) : duration(end - start)}</span>;
}

/** The time until something is due, counting down. */
export function Countdown({ due }: { due: string | null }) {
  const at = millis(due);
  if (at === null) return null;
  const left = at - now.value;
  return (
    <span class="nowrap" title={momentTitle(at, now.value)}>
      {left > 0 ? `in ${runningDuration(left)}` : "due now"}
    </span>
  );
}
