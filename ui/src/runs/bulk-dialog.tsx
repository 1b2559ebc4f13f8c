import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { Button } from "../parts/button.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { toast } from "../parts/toast.tsx";
import { counted, shortId } from "../text/number.ts";
import { type BulkAction, type BulkResult, bulk } from "./bulk.ts";

const WORDS: Record<BulkAction, { title: string; effect: string; done: string }> = {
  cancel: {
    title: "Cancel runs",
    effect: "Running tasks are stopped. Their effects are not undone. A run that has ended does not change.",
    done: "cancelled",
  },
  retry: {
    title: "Retry runs",
    effect: "Creates a new run for each, starting at the failed task. The original runs do not change.",
    done: "retried",
  },
};

interface BulkDialogProps {
  action: BulkAction;
  ids: string[];
  onClose: () => void;
  onDone: (failed: string[]) => void; // failures stay selected
}

/** Confirms an action for several runs, performs it, and lists the result of each. */
export default function BulkDialog({ action, ids: selected, onClose, onDone }: BulkDialogProps) {
  const ids = useMemo(() => selected, []); // those that were asked about, while the selection changes
  const [results, busy, finished] = [useSignal<BulkResult[]>([]), useSignal(false), useSignal(false)];
  const words = WORDS[action];
  const go = async () => {
    if (busy.value) return; // the second click of a double click
    busy.value = true;
    const all = await bulk(action, ids, (result) => {
      results.value = [...results.value, result];
    });
    busy.value = false;
    finished.value = true;
    const failures = all.filter(({ error }) => error).map(({ id }) => id);
    if (!failures.length) toast(`${counted(ids.length, "run")} ${words.done}.`); // the dialog goes with the selection
    onDone(failures);
  };
  const failed = results.value.filter(({ error }) => error);
  return (
    <Dialog
      title={words.title}
      onClose={onClose}
      onSubmit={() => void (finished.value ? onClose() : go())}
      footer={
        finished.value ? (
          <Button kind="primary" type="submit">
            Close
          </Button>
        ) : (
          <>
            <Button onClick={onClose}>Close</Button>
            <Button kind={action === "cancel" ? "danger" : "primary"} type="submit" busy={busy.value}>
              {words.title}
            </Button>
          </>
        )
      }
    >
      <p>
        {counted(ids.length, "run")}. {words.effect}
      </p>
      {results.value.length > 0 && (
        <p role="status">
          {results.value.length - failed.length} of {ids.length} {words.done}
          {failed.length > 0 && `, ${failed.length} failed`}
        </p>
      )}
      {failed.length > 0 && (
        <ul class="bulk-failures">
          {failed.map(({ id, error }) => (
            <li key={id}>
              <code title={id}>{shortId(id)}</code> {error}
            </li>
          ))}
        </ul>
      )}
    </Dialog>
  );
}
