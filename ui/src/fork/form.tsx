import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { Problem, post, withQuery } from "../api/client.ts";
import { RepeatKey } from "../api/repeat-key.ts";
import { useResource } from "../api/resource.ts";
import type { Execution, Fork, Outline, State } from "../api/types.gen.ts";
import { Validation } from "../editor/validation.ts";
import { go, parameter, setQuery } from "../location.ts";
import { Status } from "../look/status.tsx";
import { forbidden } from "../me.ts";
import { Button } from "../parts/button.tsx";
import { ProblemBox } from "../parts/states.tsx";
import { toast } from "../parts/toast.tsx";
import { useUnsent } from "../parts/unsent.ts";
import { href } from "../routes.ts";
import { whole } from "../run/selection.ts";
import { count, shortId } from "../text/number.ts";
import { cut, oneLine } from "../text/printable.ts";
import { hasSecretName } from "../text/secrets.ts";
import { type CtxChange, CtxChanges, readChanges } from "./ctx-changes.tsx";
import { EventChoice } from "./event-choice.tsx";
import { PlaybookChoice } from "./playbook-choice.tsx";
import { type ForkCall, type Preview, planOf, previewWords, usePreview } from "./preview.ts";

const MESSAGE = 400; // characters of the error that a retry shows

export function ForkForm({ run, outline }: { run: Execution; outline: Outline }) {
  const id = run.execution_id;
  const chosen = within(outline.seq, whole(parameter("at")));
  const initial = initialEvent(outline);
  const isRetry = parameter("retry") === "1" && chosen === null;
  const changes = useSignal<CtxChange[]>([]);
  const edited = useSignal<string | null>(null);
  const forget = useUnsent(
    `fork.${id}`,
    () => ({ changes: changes.value.filter(({ key }) => !hasSecretName(key)), edited: edited.value }),
    (kept) => {
      changes.value = kept.changes ?? [];
      edited.value = kept.edited ?? null;
    },
  );
  const validation = useMemo(() => new Validation(), []);
  const repeatKey = useMemo(() => new RepeatKey(), []);
  const busy = useSignal(false);
  const problem = useSignal<Problem | null>(null);

  const { ctx, complete } = readChanges(changes.value);
  const isValid = edited.value === null || (validation.isCurrent.value && validation.validity.value?.valid === true);
  const call = callOf(id, isRetry, chosen ?? initial, ctx, edited.value);
  const preview = usePreview(complete && isValid && !forbidden("operator") ? call : null);
  const at = chosen ?? (isRetry ? preview.data.value?.source_seq : null) ?? initial;
  const state = useResource<State>(
    withQuery(`/executions/${encodeURIComponent(id)}/state`, { at, parts: "ctx,tokens" }),
  );
  const next = (state.data.value?.tokens ?? []).map(({ step }) => step);
  const move = (seq: number) => setQuery({ at: seq }, { replace: true });

  const start = async () => {
    if (busy.value) return;
    busy.value = true;
    problem.value = null;
    try {
      const fork = await post<Fork>(call.path, call.body, { headers: repeatKey.headers(call) });
      forget();
      for (const warning of fork.warnings) toast(warning, { tone: "bad" });
      const verb = isRetry ? "Retried" : "Forked";
      toast(`${verb} at event ${count(fork.source_seq)}.`, {
        link: { href: href("run", { id }), text: `Source ${shortId(id)}` },
      });
      go(href("run", { id: fork.execution_id }));
    } catch (error) {
      problem.value = Problem.of(error);
      busy.value = false;
    }
  };
  const reason = !complete
    ? "A change of ctx has no key, or its value is not valid JSON."
    : !isValid
      ? "The edited playbook is not valid."
      : (preview.problem.value?.detail ?? null);
  return (
    <div class="fork">
      <header class="fork-head">
        <h1>
          {isRetry ? "Retry" : "Fork"} of {oneLine(run.name)} <code>{shortId(id)}</code>
        </h1>
        <Status status={run.status} soft />
        <a href={href("run", { id })}>Open the run</a>
        <EventChoice id={id} at={at} outline={outline} onChange={move} />
        <PreviewText preview={preview} next={next} isRetry={isRetry} run={run} />
      </header>
      <div class="fork-body">
        <CtxChanges changes={changes} ctx={state.data.value?.ctx ?? {}} />
        <PlaybookChoice
          key={digestAt(outline, at)}
          id={id}
          digest={digestAt(outline, at)}
          at={at}
          latest={outline.seq}
          edited={edited}
          validation={validation}
          onFork={move}
          plan={planOf(preview.data.value, next)}
        />
      </div>
      <footer class="fork-foot">
        {problem.value && <ProblemBox problem={problem.value} />}
        <p class="secondary">Creates a new run. The original run does not change.</p>
        <Button
          onClick={() => {
            forget();
            go(href("run", { id }));
          }}
        >
          Cancel
        </Button>
        <Button
          kind="primary"
          role={edited.value === null ? "operator" : "author"}
          reason={reason}
          busy={busy.value}
          onClick={start}
        >
          {isRetry ? "Retry this run" : "Fork this run"}
        </Button>
      </footer>
    </div>
  );
}

function callOf(
  id: string,
  isRetry: boolean,
  at: number,
  ctx: Record<string, unknown>,
  playbook: string | null,
): ForkCall {
  const changes = { ctx, ...(playbook ? { playbook } : {}) };
  const path = `/executions/${encodeURIComponent(id)}`;
  if (!isRetry) return { path: `${path}/fork`, body: { ...changes, at } };
  return { path: `${path}/retry`, body: changes };
}

interface PreviewTextProps {
  preview: Preview;
  next: string[]; // steps with a token
  isRetry: boolean;
  run: Execution;
}

function PreviewText({ preview, next, isRetry, run }: PreviewTextProps) {
  const why = forbidden("operator");
  if (why) return <p class="warning">{why}</p>;
  const [data, problem] = [preview.data.value, preview.problem.value];
  if (problem) return <p class="warning">{problem.message}</p>;
  if (!data) return <p class="fork-preview">&nbsp;</p>;
  const { kept, repeated } = previewWords(data);
  return (
    <div class="fork-preview" role="status">
      <p>
        <strong>Kept:</strong> {kept}. <strong>Runs again:</strong> {repeated}.{" "}
        {next.length > 0 && (
          <>
            <strong>Continues at:</strong> {next.join(", ")}.{" "}
          </>
        )}
        Events 1 to {count(data.source_seq)} are copied.
      </p>
      {isRetry && run.error?.task && (
        <p class="secondary">
          Failed task: <code>{run.error.task}</code> of step <code>{run.error.step}</code>.{" "}
          {oneLine(cut(run.error.message ?? "", MESSAGE))}
        </p>
      )}
      {data.warnings.map((warning) => (
        <p key={warning} class="warning">
          {warning}
        </p>
      ))}
    </div>
  );
}

/** An event of the URL, as the nearest one that the log has. */
function within(latest: number, seq: number | null): number | null {
  return seq === null ? null : Math.max(1, Math.min(latest, seq));
}

/** The default event of a fork: the last step run of a run that has ended, since its end cannot be forked. */
function initialEvent({ seq, ended, runs }: Pick<Outline, "seq" | "ended" | "runs">): number {
  if (ended === null) return seq;
  return Math.max(1, ...(runs?.started_seq ?? [seq - 1]).filter((started) => started < seq));
}

/** The playbook in force at an event: an earlier fork can have changed it. */
function digestAt(outline: Outline, at: number): string {
  const digests = outline.digests.filter(([seq]) => Number(seq) <= at);
  return String((digests.at(-1) ?? outline.digests[0])?.[1] ?? "");
}
