import type { Schedule } from "../api/types.gen.ts";
import { cronWords, parseCron } from "../text/cron.ts";
import { duration } from "../text/time.ts";

type When = Pick<Schedule, "cron" | "every" | "at">;

/** When a schedule fires, in words. */
export function whenWords({ cron, every, at }: When): string {
  if (cron) {
    const parsed = parseCron(cron);
    return parsed ? cronWords(parsed) : cron;
  }
  if (every !== null) return `every ${duration(every * 1000)}`;
  return at ? `once at ${at}` : "-";
}
