import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { idempotencyKey, Problem, post } from "../../api/client.ts";
import type { Fork, ForkPreview } from "../../api/types.gen.ts";
import { go } from "../../location.ts";
import { Button } from "../../parts/button.tsx";
import { FormDialog } from "../../parts/form-dialog.tsx";
import { Loading, ProblemBox } from "../../parts/states.tsx";
import { href } from "../../routes.ts";
import { counted } from "../../text/number.ts";
import type { RunModel } from "../model.ts";
import { stepOf } from "../selection.ts";

interface RetryProps {
  model: RunModel;
  run: string;
  failed: number;
}

/** A new run in which only the failed items of a loop run again. */
export function RetryItems(props: RetryProps) {
  const isOpen = useSignal(false);
  const reason = props.model.hasEnded.value ? null : "The run has not ended yet.";
  return (
    <>
      <Button
        role="operator"
        reason={reason}
        onClick={() => {
          isOpen.value = true;
        }}
      >
        Retry failed items...
      </Button>
      {isOpen.value && (
        <RetryDialog
          {...props}
          onClose={() => {
            isOpen.value = false;
          }}
        />
      )}
    </>
  );
}

function RetryDialog({ model, run, failed, onClose }: RetryProps & { onClose: () => void }) {
  const plan = useSignal<ForkPreview | undefined>(undefined);
  const problem = useSignal<Problem | undefined>(undefined);
  const key = useMemo(idempotencyKey, []);
  const body = { step: stepOf(run), failed_items: true };
  const preview = async () => {
    problem.value = undefined;
    try {
      plan.value = await post<ForkPreview>(model.path("retry"), body, { query: { dry_run: true } });
    } catch (error) {
      problem.value = Problem.of(error);
    }
  };
  useEffect(() => void preview(), []);
  const retry = async () => {
    const fork = await post<Fork>(model.path("retry"), body, { headers: { "Idempotency-Key": key } });
    go(href("run", { id: fork.execution_id }));
  };
  return (
    <FormDialog
      title={`Retry the failed items of ${run}`}
      button={`Retry ${counted(failed, "item")}`}
      busy={!plan.value}
      act={retry}
      onClose={onClose}
    >
      {problem.value && <ProblemBox problem={problem.value} onRetry={() => void preview()} />}
      {!plan.value && !problem.value && <Loading rows={3} />}
      {plan.value && <Plan plan={plan.value} failed={failed} />}
    </FormDialog>
  );
}

function Plan({ plan, failed }: { plan: ForkPreview; failed: number }) {
  const steps = plan.again.map(({ run, items }) => (items === null ? run : `${run} (${counted(items, "item")})`));
  return (
    <div class="items-plan">
      <p>
        Creates a new run in which {counted(failed, "failed item")} {failed === 1 ? "runs" : "run"} again. The original
        run does not change.
      </p>
      <p>
        Runs again: {steps.join(", ") || "nothing"}. Kept: {plan.done.join(", ") || "nothing"}.
      </p>
      {plan.warnings.map((warning) => (
        <p key={warning} class="tone-waiting">
          {warning}
        </p>
      ))}
    </div>
  );
}
