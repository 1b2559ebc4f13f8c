/** The draft of a schedule: fields of the form, their errors, and the request. Pure. */

import type { Schedule, ScheduleRequest } from "../api/types.gen.ts";
import { cronFields } from "../text/cron.ts";
import { parseMap } from "../text/typed.ts";

export interface Draft {
  name: string;
  path: string;
  version: string;
  kind: "cron" | "every" | "at";
  cron: string;
  every: string;
  at: string;
  timezone: string;
  overlap: Schedule["overlap"];
  missed: Schedule["missed"];
  payload: string;
  ctx: Record<string, unknown>; // not shown by the form
}

export function draftOf(schedule?: Schedule): Draft {
  return {
    name: schedule?.name ?? "",
    path: schedule?.path ?? "",
    version: String(schedule?.version ?? ""),
    kind: schedule?.at ? "at" : schedule?.every != null ? "every" : "cron",
    cron: schedule?.cron ?? "",
    every: schedule?.every == null ? "" : String(schedule.every),
    at: schedule?.at ?? "",
    timezone: schedule?.timezone ?? "UTC",
    overlap: schedule?.overlap ?? "skip",
    missed: schedule?.missed ?? "once",
    payload: schedule && Object.keys(schedule.payload).length ? JSON.stringify(schedule.payload, null, 2) : "",
    ctx: schedule?.ctx ?? {},
  };
}

type Faults = Partial<Record<keyof Draft, string>>;

export function faultsOf(draft: Draft, isZone: (name: string) => boolean): Faults {
  const faults: Faults = {};
  if (!draft.name) faults.name = "The schedule needs a name.";
  if (!draft.path) faults.path = "Choose a playbook.";
  if (!/^\d*$/.test(draft.version)) faults.version = "Enter the number of a version.";
  if (draft.kind === "cron" && !cronFields(draft.cron))
    faults.cron = "A cron expression has five fields: minute, hour, day, month, weekday. Or write @daily.";
  if (draft.kind === "every" && !draft.every) faults.every = "Enter an interval, such as 30m.";
  if (draft.kind === "at" && !draft.at) faults.at = "Enter a time in RFC 3339.";
  if (!isZone(draft.timezone))
    faults.timezone = draft.timezone
      ? `Unknown time zone ${draft.timezone}. Enter a name such as Europe/Berlin.`
      : "Enter a time zone, such as Europe/Berlin.";
  const inputs = parseMap(draft.payload);
  if ("error" in inputs) faults.payload = inputs.error;
  return faults;
}

export function requestOf(draft: Draft): ScheduleRequest {
  const { path, version, kind, timezone, overlap, missed, ctx } = draft;
  const every = /^\d+(\.\d+)?$/.test(draft.every) ? Number(draft.every) : draft.every;
  const inputs = parseMap(draft.payload);
  const when = kind === "cron" ? { cron: draft.cron.trim() } : kind === "every" ? { every } : { at: draft.at.trim() };
  return {
    path,
    version: version ? Number(version) : null,
    ...when,
    timezone,
    overlap,
    missed,
    payload: "value" in inputs ? inputs.value : {},
    ctx,
  };
}
