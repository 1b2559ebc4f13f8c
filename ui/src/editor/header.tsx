import { useSignal } from "@preact/signals";
import { forbidden } from "../me.ts";
import { Button, LinkButton } from "../parts/button.tsx";
import { Moment } from "../parts/moment.tsx";
import { href } from "../routes.ts";
import type { EditorModel } from "./model.ts";
import { RegisterButton } from "./register.tsx";
import { ReplayRunsDialog } from "./replay-runs.tsx";
import { problemWords } from "./validation.ts";

/** Why the playbook cannot be started, null if it can. */
export function startReason(model: EditorModel): string | null {
  if (forbidden("operator")) return forbidden("operator");
  return model.isDraft.value ? "Register the draft first: a run starts a registered version." : null;
}

export function EditorHeader({
  model,
  readOnly,
  onDiscard,
}: {
  model: EditorModel;
  readOnly: boolean;
  onDiscard: () => void;
}) {
  const replaying = useSignal(false);
  const { path } = model;
  const registered = model.registered.value;
  const validity = model.validation.validity.value;
  const replayReason = !path ? "A new playbook has no runs." : validity?.valid ? null : "The playbook has errors.";
  return (
    <header class="editor-head">
      <h1>{path || "New playbook"}</h1>
      <div class="secondary">
        {registered ? <a href={href("playbook", { path })}>version {registered.version}</a> : "not registered"}
        {model.isDraft.value && ", draft"}
        {model.isDraft.value && model.saved.value !== null && (
          <>
            {" "}
            saved <Moment at={model.saved.value} />
          </>
        )}
      </div>
      <span
        class={validity?.valid === false ? "editor-state bad" : "editor-state"}
        role="status"
        data-current={model.validation.isCurrent.value}
      >
        {problemWords(validity)}
      </span>
      {readOnly && <span class="editor-state">Read-only. {forbidden("author")}</span>}
      <span class="editor-actions">
        {model.isDraft.value && registered && !readOnly && (
          <Button kind="quiet" onClick={onDiscard}>
            Discard draft
          </Button>
        )}
        <Button
          role="author"
          reason={replayReason}
          onClick={() => {
            replaying.value = true;
          }}
        >
          Replay runs...
        </Button>
        <LinkButton reason={startReason(model)} href={href("start", { path })}>
          Start...
        </LinkButton>
        <RegisterButton model={model} />
      </span>
      {replaying.value && (
        <ReplayRunsDialog
          path={path}
          text={model.text.value}
          onClose={() => {
            replaying.value = false;
          }}
        />
      )}
    </header>
  );
}
