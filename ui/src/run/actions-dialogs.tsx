import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { go } from "../location.ts";
import { Button } from "../parts/button.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { TextField } from "../parts/field.tsx";
import { RespondDialog } from "../respond/dialog.tsx";
import { SendSignalDialog } from "../respond/send-dialog.tsx";
import { href } from "../routes.ts";
import { cancelRun, runDialog } from "./actions.ts";
import type { RunModel } from "./model.ts";

/** The dialog of the action that was chosen. */
export function RunDialogs({ model }: { model: RunModel }) {
  const close = () => {
    runDialog.value = null;
  };
  useEffect(() => close, []);
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
  const [reason, isBusy] = [useSignal(""), useSignal(false)];
  const submit = async () => {
    isBusy.value = true;
    if (await cancelRun(model, reason.value.trim())) onClose();
    isBusy.value = false;
  };
  return (
    <Dialog
      title="Cancel this run"
      onClose={onClose}
      onSubmit={submit}
      footer={
        <>
          <Button onClick={onClose}>Keep running</Button>
          <Button kind="danger" type="submit" busy={isBusy.value}>
            Cancel run
          </Button>
        </>
      }
    >
      <p>
        Running tasks are stopped and no further task starts. The run cannot be resumed; a retry starts a new run from
        where it stopped.
      </p>
      <TextField
        label="Reason"
        help="Optional. It is stored in the log."
        value={reason.value}
        autofocus
        onInput={(text) => {
          reason.value = text;
        }}
      />
    </Dialog>
  );
}

function CompareDialog({ model, onClose }: { model: RunModel; onClose: () => void }) {
  const details = model.details.value;
  const source = details?.forked_from?.execution_id ?? "";
  const other = useSignal(source);
  const submit = () => {
    const id = other.value.trim();
    if (!id) return;
    onClose();
    go(href("compare", { a: model.id, b: id }));
  };
  return (
    <Dialog
      title="Compare with another run"
      onClose={onClose}
      onSubmit={submit}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" reason={other.value.trim() ? null : "Enter the id of a run."}>
            Compare
          </Button>
        </>
      }
    >
      <TextField
        label="Id of the other run"
        help={source ? "The run from which this one was forked is filled in." : "Copy it from the list of runs."}
        value={other.value}
        autofocus
        mono
        onInput={(text) => {
          other.value = text;
        }}
      />
    </Dialog>
  );
}
