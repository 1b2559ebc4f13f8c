import assert from "node:assert/strict";
import { test } from "node:test";
import { cronWords, nextFirings, parseCron } from "./cron.ts";

const words = (text: string) => {
  const cron = parseCron(text);
  return cron && cronWords(cron);
};

test("expressions are said in words", () => {
  const cases: [string, string | null][] = [
    ["* * * * *", "every minute"],
    ["*/15 * * * *", "every 15 minutes"],
    ["0 * * * *", "every hour"],
    ["5 * * * *", "at minute 5 of every hour"],
    ["0 */6 * * *", "every 6 hours"],
    ["30 2 * * *", "at 02:30"],
    ["0 9,17 * * mon-fri", "at 09:00 and 17:00 on Monday to Friday"],
    ["0 0 1 * *", "at 00:00 on day 1 of the month"],
    ["0 0 1 jan *", "at 00:00 on day 1 of the month in January"],
    ["*/5 9-17 * * 1-5", "every 5 minutes from 09:00 to 17:59 on Monday to Friday"],
    ["0 0 13 * 5", "at 00:00 on day 13 of the month or on Friday"],
    ["0 0 * * 7", "at 00:00 on Sunday"],
    ["@hourly", "every hour"],
    [" @Daily ", "at 00:00"],
    ["@weekly", "at 00:00 on Sunday"],
    ["@annually", "at 00:00 on day 1 of the month in January"],
    ["@often", null],
    ["60 * * * *", null],
    ["0 0 L * *", null],
    ["nonsense", null],
  ];
  for (const [text, expected] of cases) assert.equal(words(text), expected, text);
});

const next = (text: string, after: string, zone: string, wanted?: number) => {
  const cron = parseCron(text);
  return cron
    ? nextFirings(cron, Date.parse(after), zone, wanted).map((at) => new Date(at).toISOString().slice(0, 16))
    : [];
};

test("the next firings are in the zone of the schedule", () => {
  assert.deepEqual(next("30 2 * * *", "2026-11-17T12:00:00Z", "UTC", 2), ["2026-11-18T02:30", "2026-11-19T02:30"]);
  assert.deepEqual(next("0 9 * * mon", "2026-11-17T12:00:00Z", "Europe/Berlin", 2), [
    "2026-11-23T08:00",
    "2026-11-30T08:00",
  ]);
  assert.deepEqual(next("0 0 29 2 *", "2026-11-17T12:00:00Z", "UTC", 1), ["2028-02-29T00:00"]);
});

test("a time that the clock skips does not fire", () => {
  assert.deepEqual(next("30 2 29,30 3 *", "2026-03-28T12:00:00Z", "Europe/Berlin", 1), ["2026-03-30T00:30"]);
});

test("an expression that never fires ends", () => {
  assert.deepEqual(next("0 0 31 2 *", "2026-01-01T00:00:00Z", "UTC"), []);
});
