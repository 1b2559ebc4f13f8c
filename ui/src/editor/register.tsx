import { useSignal } from "@preact/signals";
import type { PlaybookText } from "../api/types.gen.ts";
import { go } from "../location.ts";
import { Button } from "../parts/button.tsx";
import { FormDialog } from "../parts/form-dialog.tsx";
import { TextDiff } from "../parts/text-diff.tsx";
import { toast, toastProblem } from "../parts/toast.tsx";
import { href } from "../routes.ts";
import type { EditorModel } from "./model.ts";

/** Registers the text; if somebody registered a newer version meanwhile, shows the difference first. */
export function RegisterButton({ model }: { model: EditorModel }) {
  const newer = useSignal<PlaybookText | null>(null);
  const busy = useSignal(false);
  const register = async () => {
    const answer = await model.register();
    toast(`Registered ${answer.path} as version ${answer.version}.`);
    if (answer.path !== model.path) go(href("edit", { path: answer.path }), { replace: true });
  };
  const begin = async () => {
    if (busy.value) return;
    busy.value = true;
    try {
      newer.value = await model.newerVersion();
      if (!newer.value) await register();
    } catch (error) {
      toastProblem("The playbook was not registered", error);
    } finally {
      busy.value = false;
    }
  };
  const next = model.validation.validity.value?.next_version;
  return (
    <>
      <Button kind="primary" role="author" reason={reasonOf(model)} busy={busy.value} onClick={begin}>
        {next && model.isDraft.value ? `Register as ${next}` : "Register"}
      </Button>
      {newer.value && (
        <FormDialog
          title={`Version ${newer.value.version} was registered in the meantime`}
          button={`Register as ${newer.value.version + 1}`}
          wide
          act={register}
          onClose={() => {
            newer.value = null;
          }}
        >
          <p>
            The draft was begun from version {model.base.value}. Registering it replaces what version{" "}
            {newer.value.version} changed.
          </p>
          <TextDiff
            a={newer.value.text}
            b={model.text.value}
            labels={[`version ${newer.value.version}`, "your draft"]}
          />
        </FormDialog>
      )}
    </>
  );
}

function reasonOf(model: EditorModel): string | null {
  const { validity, isCurrent } = model.validation;
  if (!isCurrent.value) return "The playbook is being validated.";
  if (!validity.value?.valid) return "The playbook has errors.";
  if (!model.isDraft.value) return `This text is version ${model.registered.value?.version}.`;
  const same = model.registered.value?.versions.find(({ version }) => version === validity.value?.next_version);
  return same ? `Version ${same.version} is the same playbook: only comments or formatting differ.` : null;
}
