/** The error of a failed run: the first thing that its view shows. */

import { useResource } from "../../api/resource.ts";
import type { Execution, ExecutionError, PlaybookText } from "../../api/types.gen.ts";
import { go } from "../../location.ts";
import { StatusIcon } from "../../look/status.tsx";
import { Button, LinkButton } from "../../parts/button.tsx";
import { Copy } from "../../parts/copy.tsx";
import { href } from "../../routes.ts";
import { printable } from "../../text/printable.ts";
import { currentStatus } from "../actions.ts";
import type { RunModel } from "../model.ts";
import { PlaybookLink } from "../playbook-link.tsx";
import { CodeLine, ErrorDetails, sourceOf } from "./error-details.tsx";

interface ErrorProps {
  model: RunModel;
  details: Execution;
  error: ExecutionError;
}

export function RunError({ model, details, error }: ErrorProps) {
  const place = [
    error.step && `step ${error.step}`,
    error.item !== null && `item ${error.item}`,
    error.task && `task ${error.task}`,
    error.attempt !== null && `attempt ${error.attempt}`,
  ].filter(Boolean);
  const run = latestRun(model, error.step);
  const subject = { step: error.step, run, item: error.item };
  return (
    <section class="run-error" role="alert" aria-label="Error">
      <div class="run-error-head">
        <StatusIcon status="failed" />
        <p>
          <strong>{error.kind}</strong> {printable(error.message ?? "")}
        </p>
        <Copy text={JSON.stringify(error, null, 2)} what="the error" />
      </div>
      <div class="run-error-place">
        {place.join(", ")}
        {error.line !== null && (
          <PlaybookLink model={model} line={error.line}>
            {details.path}:{error.line}
          </PlaybookLink>
        )}
      </div>
      <SourceLine details={details} error={error} />
      <ErrorDetails details={error.details} />
      <div class="run-error-links">
        {error.step && <LinkButton href={href("run", { id: model.id }, subject)}>Why</LinkButton>}
        <LinkButton href={href("run", { id: model.id }, { ...subject, tab: "logs" })}>Logs</LinkButton>
        {currentStatus(model) === "failed" && (
          <Button role="operator" onClick={() => go(href("fork", { id: model.id }, { retry: 1 }))}>
            Retry...
          </Button>
        )}
      </div>
    </section>
  );
}

/** The name of the last run of the step that failed; empty if the outline has no step runs. */
function latestRun(model: RunModel, step: string | null): string {
  const { steps = [], runs = null } = model.outline.value ?? {};
  const place = runs?.step.findLastIndex((row) => steps[row] === step) ?? -1;
  return place < 0 ? "" : `${step}#${runs?.n[place]}`;
}

/** The line of the playbook with a caret: the error has it for code, the playbook for everything else. */
function SourceLine({ details, error }: { details: Execution; error: ExecutionError }) {
  const known = sourceOf(error.details);
  const isMissing = !known && error.line !== null && details.version !== null;
  const path = details.path.split("/").map(encodeURIComponent).join("/");
  const playbook = useResource<PlaybookText>(isMissing ? `/playbooks/${path}?version=${details.version}` : null);
  const text = known?.text ?? playbook.data.value?.text.split("\n")[(error.line ?? 0) - 1];
  if (text === undefined || error.line === null) return null;
  return <CodeLine line={error.line} column={known?.column ?? error.column} text={text} />;
}
