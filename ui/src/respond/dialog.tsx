/** Responds to a step that waits for a signal. */

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { withQuery } from "../api/client.ts";
import { RepeatKey } from "../api/repeat-key.ts";
import { useResource } from "../api/resource.ts";
import type { Execution, Graph, SignalField, StepRun, Wait } from "../api/types.gen.ts";
import { FormDialog } from "../parts/form-dialog.tsx";
import { Countdown, Elapsed } from "../parts/moment.tsx";
import { TypedField } from "../parts/typed-field.tsx";
import { href } from "../routes.ts";
import { jsonLine } from "../text/json-line.ts";
import { parseMap, parseTyped, withValue } from "../text/typed.ts";
import { JsonFields } from "./json-fields.tsx";
import { sendSignal } from "./send.ts";
import "./dialog.css";

const OVER = "The step no longer waits for this signal: it was answered, timed out, or the run has ended.";
const every2s = () => 2000;

export default function RespondDialog({
  executionId,
  wait,
  onClose,
}: {
  executionId: string;
  wait: Wait;
  onClose: () => void;
}) {
  const key = useMemo(() => new RepeatKey(), []);
  const texts = useSignal<Record<string, string>>({});
  const json = useSignal("");
  const errors = useSignal<Record<string, string>>({});
  const details = useResource<Execution>(executionPath(executionId), every2s).data.value;
  const isOver = useIsOver(executionId, wait, details);
  const send = () => {
    const payload = readPayload(wait.fields, texts.value, json.value);
    errors.value = payload.errors;
    if (Object.keys(payload.errors).length) return false;
    return sendSignal(executionId, wait.name, payload.value, key);
  };
  return (
    <FormDialog
      title={`Respond: signal ${wait.name}`}
      button="Send"
      role="operator"
      reason={isOver ? OVER : null}
      act={send}
      onClose={onClose}
      aside={
        <a class="respond-open" href={href("run", { id: executionId })} onClick={onClose}>
          Open the run
        </a>
      }
    >
      {isOver && (
        <p class="warning" role="alert">
          {OVER}
        </p>
      )}
      <WaitFacts details={details} wait={wait} />
      {wait.fields.map((field) => (
        <TypedField
          key={field.path}
          label={field.path}
          type={field.type}
          value={texts.value[field.path] ?? ""}
          error={errors.value[field.path] ?? null}
          onInput={(text) => {
            texts.value = { ...texts.value, [field.path]: text };
          }}
        />
      ))}
      <JsonFields open={!wait.fields.length} text={json} error={errors.value[""] ?? null} />
    </FormDialog>
  );
}

const executionPath = (id: string) => `/executions/${encodeURIComponent(id)}`;

/** True when the step has stopped waiting, or has received its signal in a paused run: another signal would answer the
 *  next step that waits for the name. */
function useIsOver(executionId: string, { run, item, name }: Wait, details: Execution | undefined): boolean {
  const part = withQuery(`${executionPath(executionId)}/step-run`, { run, item });
  const stepRun = useResource<StepRun>(part, every2s).data.value;
  return (
    details?.waits.some((wait) => wait.for === "resume" && wait.run === run && wait.item === item) ||
    (stepRun !== undefined &&
      !stepRun.waits.some((wait) => wait.for === "signal" && wait.name === name && wait.to === null))
  );
}

/** The values of the fields, laid over the additional JSON; a text field that is left empty is not sent. */
function readPayload(fields: SignalField[], texts: Record<string, string>, json: string) {
  const errors: Record<string, string> = {};
  const more = parseMap(json);
  if ("error" in more) errors[""] = more.error;
  let value: Record<string, unknown> = "value" in more ? more.value : {};
  for (const { path, type } of fields) {
    const text = texts[path] ?? "";
    if (text === "" && type !== "boolean") continue;
    const parsed = parseTyped(type, text);
    if ("error" in parsed) errors[path] = parsed.error;
    else value = withValue(value, path, parsed.value);
  }
  return { value, errors };
}

function WaitFacts({ details, wait }: { details: Execution | undefined; wait: Wait }) {
  const graph = useResource<Graph>(details ? `/graphs/${details.playbook_id}` : null).data.value;
  const step = wait.run.replace(/#\d+$/, "");
  const description = graph?.nodes.find((node) => node.name === step)?.description;
  const results = Object.entries(details?.steps ?? {}).filter(([, view]) => view.result != null);
  return (
    <div class="respond-facts">
      <p>
        {details && <strong>{details.path}</strong>} step <code>{wait.run}</code>
        {wait.item !== null && `, item ${wait.item}`}, waiting <Elapsed from={wait.since} />
        {wait.due && (
          <>
            , times out <Countdown due={wait.due} />
          </>
        )}
      </p>
      {description && <p class="secondary">{description}</p>}
      {results.length > 0 && (
        <details>
          <summary>Previous results</summary>
          <dl>
            {results.map(([name, view]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd class="mono cut">{jsonLine(view.result)}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </div>
  );
}
