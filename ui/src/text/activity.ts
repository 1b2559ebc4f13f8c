import { millis, runningDuration } from "./time.ts";

/** The activity of a run in words; a wait shows how long it has lasted instead of when it began. */
export function activityText(activity: string, now: number): string {
  return activity.replace(
    /( waiting)? since (\d{4}-\d\d-\d\dT[\d:.]+Z)/g,
    (since, verb: string | undefined, time: string) => {
      const from = millis(time);
      return from === null ? since : `${verb ? " waiting for " : ", "}${runningDuration(now - from)}`;
    },
  );
}
