import { useSignal } from "@preact/signals";
import { Problem, request } from "../api/client.ts";
import { useResource } from "../api/resource.ts";
import type { PlaybookPage, Schedule, ScheduleRequest, StoredSchedule } from "../api/types.gen.ts";
import { now } from "../clock.ts";
import { go } from "../location.ts";
import { Button } from "../parts/button.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { Field, TextField } from "../parts/field.tsx";
import { ProblemBox } from "../parts/states.tsx";
import { toast } from "../parts/toast.tsx";
import { isZone, zone } from "../preferences.ts";
import { href } from "../routes.ts";
import { cronWords, nextFirings, parseCron } from "../text/cron.ts";
import { moment } from "../text/time.ts";
import { type Draft, draftOf, faultsOf, requestOf } from "./draft.ts";
import "./schedules.css";

/** Creates a schedule, or changes one. */
export function ScheduleDialog({ schedule, onClose }: { schedule?: Schedule; onClose: () => void }) {
  const draft = useSignal<Draft>(draftOf(schedule));
  const [busy, problem] = [useSignal(false), useSignal<Problem | undefined>(undefined)];
  const playbooks = useResource<PlaybookPage>("/playbooks?limit=200");
  const faults = faultsOf(draft.value, isZone);
  const set = (change: Partial<Draft>) => {
    draft.value = { ...draft.value, ...change };
  };
  const save = async () => {
    if (busy.value || Object.keys(faults).length) return;
    busy.value = true;
    try {
      const body: ScheduleRequest = requestOf(draft.value);
      const stored = await request<StoredSchedule>("PUT", `/schedules/${encodeURIComponent(draft.value.name)}`, {
        body,
      });
      toast(`${stored.name} is stored.${stored.warnings.length ? ` ${stored.warnings.join(" ")}` : ""}`);
      onClose();
      go(href("schedule", { name: stored.name }));
    } catch (error) {
      problem.value = error instanceof Problem ? error : new Problem({ title: String(error) });
    } finally {
      busy.value = false;
    }
  };
  const { value } = draft;
  return (
    <Dialog
      title={schedule ? `Edit ${schedule.name}` : "Create a schedule"}
      onClose={onClose}
      onSubmit={() => void save()}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={busy.value} reason={Object.values(faults)[0] ?? null}>
            Save schedule
          </Button>
        </>
      }
    >
      {!schedule && <TextField label="Name" value={value.name} autofocus onInput={(name) => set({ name })} />}
      <Field label="Playbook">
        {(ids) => (
          <select
            {...ids}
            class="input"
            value={value.path}
            onChange={(event) => set({ path: event.currentTarget.value })}
          >
            <option value="">choose</option>
            {[...new Set([value.path, ...(playbooks.data.value?.items ?? []).map(({ path }) => path)])]
              .filter(Boolean)
              .map((path) => (
                <option key={path} value={path}>
                  {path}
                </option>
              ))}
          </select>
        )}
      </Field>
      <div class="form-row">
        <Field label="Fires">
          {(ids) => (
            <select
              {...ids}
              class="input"
              value={value.kind}
              onChange={(event) => set({ kind: event.currentTarget.value as Draft["kind"] })}
            >
              <option value="cron">by a cron expression</option>
              <option value="every">at an interval</option>
              <option value="at">once</option>
            </select>
          )}
        </Field>
        {value.kind === "cron" && (
          <TextField
            label="Cron expression"
            mono
            value={value.cron}
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
        <Choice
          label="If the previous run is active"
          value={value.overlap}
          options={["skip", "queue", "allow"]}
          onChange={(overlap) => set({ overlap })}
        />
        <Choice
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
      {problem.value && <ProblemBox problem={problem.value} />}
    </Dialog>
  );
}

function Choice<T extends string>({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: T;
  options: T[];
  onChange: (value: T) => void;
}) {
  return (
    <Field label={label}>
      {(ids) => (
        <select {...ids} class="input" value={value} onChange={(event) => onChange(event.currentTarget.value as T)}>
          {options.map((option) => (
            <option key={option} value={option}>
              {option}
            </option>
          ))}
        </select>
      )}
    </Field>
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
