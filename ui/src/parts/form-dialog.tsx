import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { Problem } from "../api/client.ts";
import type { Role } from "../me.ts";
import { Button } from "./button.tsx";
import { Dialog } from "./dialog.tsx";
import { ProblemBox } from "./states.tsx";
import { toast } from "./toast.tsx";

interface FormDialogProps {
  title: string;
  children: ComponentChildren; // the effect of the action, and its fields
  button: string;
  act: () => unknown; // may be a promise; false leaves the dialog open
  onClose: () => void;
  done?: string; // the message after the action
  danger?: boolean;
  wide?: boolean;
  role?: Role; // the least role that may submit it
  reason?: string | null | undefined; // why it cannot be submitted yet
  busy?: boolean;
  cancel?: string;
  aside?: ComponentChildren; // at the start of the footer
}

/** Describes an action, runs it once, and shows a message. An error stays in the dialog. */
export function FormDialog({ title, children, button, act, onClose, ...props }: FormDialogProps) {
  const { done, danger, wide, role, reason, cancel = "Cancel", aside } = props;
  const [busy, problem] = [useSignal(false), useSignal<Problem | undefined>(undefined)];
  const submit = async () => {
    if (busy.value || props.busy || reason) return;
    busy.value = true;
    problem.value = undefined;
    try {
      if ((await act()) === false) return;
      if (done) toast(done);
      onClose();
    } catch (error) {
      problem.value = Problem.of(error);
    } finally {
      busy.value = false;
    }
  };
  return (
    <Dialog
      title={title}
      wide={wide}
      onClose={onClose}
      onSubmit={() => void submit()}
      footer={
        <>
          {aside}
          <Button onClick={onClose}>{cancel}</Button>
          <Button
            kind={danger ? "danger" : "primary"}
            type="submit"
            role={role}
            reason={reason}
            busy={busy.value || props.busy}
          >
            {button}
          </Button>
        </>
      }
    >
      {children}
      {problem.value && <ProblemBox problem={problem.value} />}
    </Dialog>
  );
}
