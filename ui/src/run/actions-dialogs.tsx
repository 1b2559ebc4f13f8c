import { useSignal } from "@preact/signals";
import { go } from "../location.ts";
import { TextField } from "../parts/field.tsx";
import { FormDialog } from "../parts/form-dialog.tsx";
import RespondDialog from "../respond/dialog.tsx";
import { SendSignalDialog } from "../respond/send-dialog.tsx";
import { href } from "../routes.ts";
import { cancelRun, runDialog } from "./actions.ts";
import type { RunModel } from "./model.ts";

/** The dialog of the action that was chosen. */
export default function RunDialogs({ model }: { model: RunModel }) {
  const close = () => {
    runDialog.value = null;
  };
  switch (runDialog.value?.kind) {
    case "cancel":
      return <CancelDialog model={model} onClose={close} />;
    case "compare":
      return <CompareDialog model={model} onClose={close} />;
    case "signal":
      return <SendSignalDialog executionId={model.id} onClose={close} />;
    case "respond":
      return <RespondDialog executionId={model.id} wait={runDialog.value.wait} onClose={close} />;
    default:
      return null;
  }
}

function CancelDialog({ model, onClose }: { model: RunModel; onClose: () => void }) {
  const reason = useSignal("");
  return (
    <FormDialog
      title="Cancel this run"
      button="Cancel run"
      danger
      cancel="Keep running"
      done="The run is being cancelled."
      act={() => cancelRun(model, reason.value.trim())}
      onClose={onClose}
    >
      <p>
        Running tasks are stopped and no further task starts. The run cannot be resumed; a retry starts a new run from
        where it stopped.
      </p>
      <TextField label="Reason" help="Optional. It is stored in the log." value={reason} />
    </FormDialog>
  );
}

function CompareDialog({ model, onClose }: { model: RunModel; onClose: () => void }) {
  const details = model.details.value;
  const source = details?.forked_from?.execution_id ?? "";
  const other = useSignal(source);
  const id = other.value.trim();
  return (
    <FormDialog
      title="Compare with another run"
      button="Compare"
      reason={id ? null : "Enter the id of a run."}
      act={() => go(href("compare", { a: model.id, b: id }))}
      onClose={onClose}
    >
      <TextField
        label="Id of the other run"
        help={source ? "The run from which this one was forked is filled in." : "Copy it from the list of runs."}
        value={other}
        mono
      />
    </FormDialog>
  );
}
