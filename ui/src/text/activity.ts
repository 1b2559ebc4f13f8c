import { millis, runningDuration } from "./time.ts";

/** The activity of a run in words; a wait says for how long instead of since when, which needs no reckoning. */
export function activityText(activity: string, now: number): string {
  const since = / since (\d{4}-\d\d-\d\dT\S+)$/.exec(activity);
  const from = millis(since?.[1]);
  return since && from !== null ? `${activity.slice(0, since.index)}, ${runningDuration(now - from)}` : activity;
}
