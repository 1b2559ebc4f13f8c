import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { Problem, post } from "../api/client.ts";
import { RepeatKey } from "../api/repeat-key.ts";
import type { Execution, FormField, KeychainFault, PlaybookText, Started } from "../api/types.gen.ts";
import { go } from "../location.ts";
import { Button } from "../parts/button.tsx";
import { Field } from "../parts/field.tsx";
import { ProblemBox } from "../parts/states.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { toast } from "../parts/toast.tsx";
import { TypedField } from "../parts/typed-field.tsx";
import { useUnsent } from "../parts/unsent.ts";
import { href } from "../routes.ts";
import { shortId } from "../text/number.ts";
import { hasSecretName } from "../text/secrets.ts";
import { parseMap } from "../text/typed.ts";
import { besideForm, enumTexts, payloadOf, type Texts, textsOf } from "./inputs.ts";

interface StartFormProps {
  playbook: PlaybookText;
  source: Execution | null; // a run whose inputs are copied
  copy: ComponentChildren;
}

export function StartForm({ playbook, source, copy }: StartFormProps) {
  const form = playbook.form ?? [];
  const given = useMemo(() => source?.payload ?? {}, [source]);
  const mode = useSignal<"form" | "json">(form.length ? "form" : "json");
  const texts = useSignal<Texts>(textsOf(form, given));
  const others = useSignal(besideForm(form, given).others);
  const json = useSignal(JSON.stringify(given, null, 2));
  const forget = useUnsent(
    `start.${playbook.path}@${playbook.version}.${source?.execution_id ?? ""}`,
    () => ({
      mode: mode.value,
      texts: texts.value,
      others: others.value,
      json: hasSecretName(json.value) ? undefined : json.value,
    }),
    (kept) => {
      mode.value = kept.mode ?? mode.value;
      texts.value = { ...texts.value, ...kept.texts };
      others.value = kept.others ?? others.value;
      json.value = kept.json ?? json.value;
    },
  );
  const tried = useSignal(false);
  const busy = useSignal(false);
  const problem = useSignal<Problem | null>(null);
  const repeatKey = useMemo(() => new RepeatKey(), []);

  const filled = payloadOf(form, texts.value, others.value);
  const parsed = parseMap(json.value);
  const isForm = mode.value === "form";
  const payload = isForm ? filled.payload : "value" in parsed ? parsed.value : null;
  const isSound = payload !== null && (!isForm || !Object.keys(filled.errors).length);
  const unknown = payload && playbook.form ? besideForm(form, payload).unknown : [];

  const change = (name: string) => {
    if (name === "json") json.value = JSON.stringify(filled.payload, null, 2);
    else if ("value" in parsed) {
      texts.value = textsOf(form, parsed.value);
      others.value = besideForm(form, parsed.value).others;
    } else {
      tried.value = true;
      return;
    }
    mode.value = name as "form" | "json";
  };
  const start = async () => {
    tried.value = true;
    if (!isSound || busy.value) return;
    busy.value = true;
    problem.value = null;
    const body = { path: playbook.path, version: playbook.version, payload };
    try {
      const started = await post<Started>("/executions", body, { headers: repeatKey.headers(body) });
      forget();
      for (const warning of started.warnings) toast(warning, { tone: "bad" });
      go(href("run", { id: started.execution_id }));
    } catch (error) {
      problem.value = Problem.of(error);
    } finally {
      busy.value = false;
    }
  };
  return (
    <form
      class="card start-form"
      onSubmit={(event) => {
        event.preventDefault();
        void start();
      }}
    >
      <div class="start-mode">
        <Tabs
          label="How to enter the inputs"
          active={mode.value}
          tabs={[
            { name: "form", label: "Form" },
            { name: "json", label: "JSON" },
          ]}
          onChoose={change}
        />
        {copy}
      </div>
      {source && <p class="secondary">The inputs are copied from run {shortId(source.execution_id)}.</p>}
      {isForm ? (
        <FormFields form={form} texts={texts.value} errors={tried.value ? filled.errors : {}} onChange={texts} />
      ) : (
        <Field
          label="Payload"
          help="A map that is laid over the workload of the playbook."
          error={tried.value && "error" in parsed ? parsed.error : null}
        >
          {(ids) => (
            <textarea
              {...ids}
              class="input mono"
              rows={16}
              spellcheck={false}
              value={json.value}
              onInput={(event) => {
                json.value = event.currentTarget.value;
              }}
            />
          )}
        </Field>
      )}
      {unknown.length > 0 && (
        <p class="warning" role="status">
          The playbook does not declare {unknown.join(", ")}. Nothing may read {unknown.length === 1 ? "it" : "them"}.
        </p>
      )}
      <KeychainFaults faults={playbook.keychain_faults ?? []} />
      {problem.value && <ProblemBox problem={problem.value} />}
      <footer>
        <Button
          onClick={() => {
            forget();
            window.history.back();
          }}
        >
          Cancel
        </Button>
        <Button kind="primary" type="submit" role="operator" busy={busy.value}>
          Start run
        </Button>
      </footer>
    </form>
  );
}

/** Why the server would refuse to start the playbook. */
function KeychainFaults({ faults }: { faults: KeychainFault[] }) {
  return faults.map(({ entry, missing, reason }) => (
    <p key={`${entry} ${reason}`} class="warning">
      {missing ? (
        <>
          The credential {missing} is missing. <a href={href("credentials")}>Create it</a> first.
        </>
      ) : (
        `Keychain entry ${entry}: ${reason}.`
      )}
    </p>
  ));
}

function FormFields({
  form,
  texts,
  errors,
  onChange,
}: {
  form: FormField[];
  texts: Texts;
  errors: Record<string, string>;
  onChange: { value: Texts };
}) {
  if (!form.length) return <p class="secondary">This playbook declares no inputs.</p>;
  return (
    <>
      {form.map((field) =>
        field.template && !texts[field.path] ? (
          <div key={field.path} class="field">
            <span class="start-label">{field.path}</span>
            <code class="start-template">{String(field.default)}</code>
            <p class="field-help">{field.help ? `${field.help} ` : ""}Computed at the start. Override it in JSON.</p>
          </div>
        ) : (
          <TypedField
            key={field.path}
            label={field.required ? `${field.path} (required)` : field.path}
            type={field.type}
            value={texts[field.path] ?? ""}
            options={enumTexts(field)}
            optional={!field.required}
            help={field.help}
            error={errors[field.path] ?? null}
            onInput={(text) => {
              onChange.value = { ...texts, [field.path]: text };
            }}
          />
        ),
      )}
    </>
  );
}
