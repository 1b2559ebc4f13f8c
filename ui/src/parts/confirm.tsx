import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { Problem } from "../api/client.ts";
import { Button } from "./button.tsx";
import { Dialog } from "./dialog.tsx";
import { ProblemBox } from "./states.tsx";
import { toast } from "./toast.tsx";

interface ConfirmProps {
  title: string;
  children: ComponentChildren; // what it will do
  button: string;
  danger?: boolean;
  done: string; // what it did
  act: () => Promise<unknown>;
  onClose: () => void;
}

/** Says what an action will do, does it, and says what it did. A failure stays in the dialog. */
export function Confirm({ title, children, button, danger = false, done, act, onClose }: ConfirmProps) {
  const [busy, problem] = [useSignal(false), useSignal<Problem | undefined>(undefined)];
  const submit = async () => {
    if (busy.value) return;
    busy.value = true;
    try {
      await act();
      toast(done);
      onClose();
    } catch (error) {
      problem.value = error instanceof Problem ? error : new Problem({ title: String(error) });
    } finally {
      busy.value = false;
    }
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={() => void submit()}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind={danger ? "danger" : "primary"} type="submit" busy={busy.value}>
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
