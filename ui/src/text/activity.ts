import { millis, runningDuration } from "./time.ts";

interface Doing {
  activity: string;
  waits: { since: string }[];
}

/** The activity of a run in words; a wait shows how long it has lasted instead of when it began. The sentence has whole
 *  seconds: a wait would seem to be older than its run. */
export function activityText({ activity, waits }: Doing, now: number): string {
  return activity.replace(
    /( waiting)? since (\d{4}-\d\d-\d\dT[\d:]+)Z/g,
    (since, verb: string | undefined, seconds: string) => {
      const from = millis(waits.find((wait) => wait.since.startsWith(seconds))?.since ?? `${seconds}Z`);
      return from === null ? since : `${verb ? " waiting for " : ", "}${runningDuration(now - from)}`;
    },
  );
}
