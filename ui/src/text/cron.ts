/** Cron expressions in words, and when they fire next. Pure. The server decides; this is the preview of a form. */

export interface Cron {
  minutes: number[];
  hours: number[];
  days: number[] | null; // of the month; null for every day
  months: number[];
  weekdays: number[] | null; // 0 is Sunday; null for every day
}

const WEEKDAY_NAMES = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split(" ");
const MONTH_NAMES = "January February March April May June July August September October November December".split(" ");
const short = (name: string) => name.slice(0, 3).toLowerCase();
const [MONTHS, WEEKDAYS] = [MONTH_NAMES.map(short), WEEKDAY_NAMES.map(short)];

const MACROS: Record<string, string> = {
  "@hourly": "0 * * * *",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@weekly": "0 0 * * 0",
  "@monthly": "0 0 1 * *",
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
};

/** The five fields of an expression or of a macro such as @daily; null if there are not five. */
export function cronFields(text: string): string[] | null {
  const written = text.trim().toLowerCase();
  const fields = (MACROS[written] ?? written).split(/\s+/);
  return fields.length === 5 ? fields : null;
}

/** The values of an expression; null if it is invalid, or has a form that only the server supports. */
export function parseCron(text: string): Cron | null {
  const fields = cronFields(text);
  if (!fields) return null;
  const [minute = "", hour = "", day = "", month = "", weekday = ""] = fields;
  const minutes = values(minute, 0, 59);
  const hours = values(hour, 0, 23);
  const days = values(day, 1, 31);
  const months = values(month, 1, 12, MONTHS, 1);
  const weekdays = values(weekday, 0, 7, WEEKDAYS, 0);
  if (!minutes || !hours || !days || !months || !weekdays) return null;
  return {
    minutes,
    hours,
    days: day.startsWith("*") && !day.includes("/") ? null : days,
    months,
    weekdays:
      weekday.startsWith("*") && !weekday.includes("/")
        ? null
        : [...new Set(weekdays.map((value) => value % 7))].sort(),
  };
}

function values(text: string, least: number, most: number, names: string[] = [], first = 0): number[] | null {
  const found = new Set<number>();
  for (const part of text.split(",")) {
    const match = /^(\*|[a-z0-9]+)(?:-([a-z0-9]+))?(?:\/(\d+))?$/.exec(part);
    if (!match) return null;
    const [, from = "", to, step] = match;
    const low = from === "*" ? least : number(from, names, first);
    const high = from === "*" ? most : to ? number(to, names, first) : step ? most : low;
    const by = step ? Number(step) : 1;
    if (low === null || high === null || by < 1 || low < least || high > most || low > high) return null;
    for (let value = low; value <= high; value += by) found.add(value);
  }
  return [...found].sort((a, b) => a - b);
}

function number(text: string, names: string[], first: number): number | null {
  if (/^\d+$/.test(text)) return Number(text);
  const place = names.indexOf(text);
  return place < 0 ? null : place + first;
}

/** "at 02:30 on Monday and Friday", "every 15 minutes". */
export function cronWords(cron: Cron): string {
  return [timeWords(cron), dayWords(cron), monthWords(cron)].filter(Boolean).join(" ");
}

function timeWords({ minutes, hours }: Cron): string {
  const step = evenStep(minutes, 60);
  const every = step === 1 ? "every minute" : step ? `every ${step} minutes` : null;
  if (every) return hours.length === 24 ? every : `${every} ${hourWords(hours)}`;
  if (hours.length === 24)
    return minutes.length === 1
      ? minutes[0] === 0
        ? "every hour"
        : `at minute ${minutes[0]} of every hour`
      : `at minutes ${list(minutes)} of every hour`;
  const hourStep = evenStep(hours, 24);
  if (hourStep && minutes.length === 1) return `every ${hourStep} hours${minutes[0] ? ` at minute ${minutes[0]}` : ""}`;
  const times = hours.flatMap((hour) => minutes.map((minute) => clock(hour, minute)));
  return times.length <= 6 ? `at ${list(times)}` : `at minutes ${list(minutes)} ${hourWords(hours)}`;
}

function hourWords(hours: number[]): string {
  return isRun(hours) && hours.length > 1
    ? `from ${clock(hours[0] ?? 0, 0)} to ${clock(hours.at(-1) ?? 0, 59)}`
    : `in the hours ${list(hours)}`;
}

function dayWords({ days, weekdays }: Cron): string {
  const month = days ? `on day ${list(days)} of the month` : "";
  const week = weekdays ? `on ${weekdayWords(weekdays)}` : "";
  return month && week ? `${month} or ${week}` : month || week;
}

function weekdayWords(weekdays: number[]): string {
  if (weekdays.join() === "1,2,3,4,5") return "Monday to Friday";
  return list(weekdays.map((day) => WEEKDAY_NAMES[day] ?? ""));
}

function monthWords({ months }: Cron): string {
  return months.length === 12 ? "" : `in ${list(months.map((month) => MONTH_NAMES[month - 1] ?? ""))}`;
}

function evenStep(found: number[], size: number): number | null {
  const step = (found[1] ?? size) - (found[0] ?? 0);
  const isEven =
    found[0] === 0 &&
    found.length > 1 &&
    size % step === 0 &&
    found.length === size / step &&
    found.every((value, place) => value === place * step);
  return isEven ? step : null;
}

const isRun = (found: number[]) => found.every((value, place) => value === (found[0] ?? 0) + place);
const clock = (hour: number, minute: number) => `${String(hour).padStart(2, "0")}:${String(minute).padStart(2, "0")}`;

const LIST = new Intl.ListFormat("en-GB");
const list = (words: (string | number)[]) => LIST.format(words.map(String));

const MAX_DAYS = 366 * 5;

/** The next times, in milliseconds; a local time that a change of the clock skips is left out. */
export function nextFirings(cron: Cron, after: number, zone: string, wanted = 5): number[] {
  const found: number[] = [];
  const today = localDay(after, zone);
  for (let ahead = 0; ahead < MAX_DAYS && found.length < wanted; ahead += 1) {
    const day = new Date(today + ahead * 86_400_000);
    if (!firesOn(cron, day)) continue;
    for (const hour of cron.hours)
      for (const minute of cron.minutes) {
        const at = instant(day.getTime() + (hour * 60 + minute) * 60_000, zone);
        if (at !== null && at > after && found.length < wanted) found.push(at);
      }
  }
  return found;
}

function firesOn({ days, months, weekdays }: Cron, day: Date): boolean {
  if (!months.includes(day.getUTCMonth() + 1)) return false;
  const [inMonth, inWeek] = [days?.includes(day.getUTCDate()), weekdays?.includes(day.getUTCDay())];
  // As in every cron: if both are set, either may match.
  return days && weekdays ? Boolean(inMonth || inWeek) : (inMonth ?? inWeek ?? true);
}

/** The midnight of the local day, as if it were UTC. */
function localDay(at: number, zone: string): number {
  return Math.floor((at + offset(at, zone)) / 86_400_000) * 86_400_000;
}

/** The moment of a local time (given as if it were UTC), null if the zone skips it. */
function instant(local: number, zone: string): number | null {
  const guess = local - offset(local, zone);
  const at = local - offset(guess, zone);
  return at + offset(at, zone) === local ? at : null;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function offset(at: number, zone: string): number {
  let format = formats.get(zone);
  if (!format) {
    // Swedish times can be parsed: 2026-11-18 19:45:03.
    format = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" });
    formats.set(zone, format);
  }
  return Date.parse(`${format.format(at).replace(" ", "T")}Z`) - Math.floor(at / 1000) * 1000;
}
