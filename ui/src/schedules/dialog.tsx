import { useSignal } from "@preact/signals";
import { post, request } from "../api/client.ts";
import type { Schedule, ScheduleRequest, StoredSchedule } from "../api/types.gen.ts";
import { now } from "../clock.ts";
import { go } from "../location.ts";
import { Field, SelectField, TextField } from "../parts/field.tsx";
import { FormDialog } from "../parts/form-dialog.tsx";
import { toast } from "../parts/toast.tsx";
import { PlaybookField } from "../playbooks/choice.tsx";
import { isZone, zone } from "../preferences.ts";
import { href } from "../routes.ts";
import { cronWords, nextFirings, parseCron } from "../text/cron.ts";
import { moment } from "../text/time.ts";
import { type Draft, draftOf, faultsOf, requestOf } from "./draft.ts";
import "./schedules.css";

const KINDS = [
  { value: "cron", label: "by a cron expression" },
  { value: "every", label: "at an interval" },
  { value: "at", label: "once" },
] as const;

/** Creates a schedule, or changes one. */
export function ScheduleDialog({ schedule, onClose }: { schedule?: Schedule; onClose: () => void }) {
  const draft = useSignal<Draft>(draftOf(schedule));
  const faults = faultsOf(draft.value, isZone);
  const set = (change: Partial<Draft>) => {
    draft.value = { ...draft.value, ...change };
  };
  const { value } = draft;
  const save = async () => {
    const body: ScheduleRequest = requestOf(value);
    const stored = schedule
      ? await request<StoredSchedule>("PUT", `/schedules/${encodeURIComponent(value.name)}`, { body })
      : await post<StoredSchedule>("/schedules", { name: value.name, ...body });
    toast(`${stored.name} is stored.${stored.warnings.length ? ` ${stored.warnings.join(" ")}` : ""}`);
    go(href("schedule", { name: stored.name }));
  };
  return (
    <FormDialog
      title={schedule ? `Edit ${schedule.name}` : "Create a schedule"}
      button="Save schedule"
      reason={Object.values(faults)[0]}
      act={save}
      onClose={onClose}
    >
      {!schedule && <TextField label="Name" value={value.name} onInput={(name) => set({ name })} />}
      <div class="form-row">
        <PlaybookField value={value.path} onInput={(path) => set({ path })} />
        <TextField
          label="Version"
          value={value.version}
          help="Optional; empty for the latest"
          error={faults.version}
          onInput={(version) => set({ version })}
        />
      </div>
      <div class="form-row">
        <SelectField label="Fires" value={value.kind} options={KINDS} onChange={(kind) => set({ kind })} />
        {value.kind === "cron" && (
          <TextField
            label="Cron expression"
            mono
            value={value.cron}
            help="Such as 30 2 * * 1-5, or @daily"
            error={value.cron ? faults.cron : null}
            onInput={(cron) => set({ cron })}
          />
        )}
        {value.kind === "every" && (
          <TextField
            label="Interval"
            value={value.every}
            help="Such as 30m, 6h or 1d"
            onInput={(text) => set({ every: text })}
          />
        )}
        {value.kind === "at" && (
          <TextField
            label="Time"
            value={value.at}
            help="RFC 3339, such as 2026-12-01T02:00:00Z"
            onInput={(at) => set({ at })}
          />
        )}
        <TextField
          label="Time zone"
          value={value.timezone}
          error={faults.timezone}
          onInput={(timezone) => set({ timezone })}
        />
      </div>
      {value.kind === "cron" && <CronPreview draft={value} />}
      <div class="form-row">
        <SelectField
          label="If the previous run is active"
          value={value.overlap}
          options={["skip", "queue", "allow"]}
          onChange={(overlap) => set({ overlap })}
        />
        <SelectField
          label="Missed firings"
          value={value.missed}
          options={["skip", "once", "all"]}
          onChange={(missed) => set({ missed })}
        />
      </div>
      <Field label="Inputs" help="Optional; a JSON object" error={faults.payload ?? null}>
        {(ids) => (
          <textarea
            {...ids}
            class="input mono"
            rows={4}
            value={value.payload}
            onInput={(event) => set({ payload: event.currentTarget.value })}
          />
        )}
      </Field>
    </FormDialog>
  );
}

function CronPreview({ draft }: { draft: Draft }) {
  const cron = parseCron(draft.cron);
  if (!cron || !isZone(draft.timezone)) return null;
  return (
    <div class="firings">
      <p>
        Fires {cronWords(cron)} ({draft.timezone}). The next five:
      </p>
      <ol>
        {nextFirings(cron, now.value, draft.timezone).map((at) => (
          <li key={at}>
            {moment(at, 0, draft.timezone)} {draft.timezone}, here {moment(at, now.value, zone.value)}
          </li>
        ))}
      </ol>
    </div>
  );
}
