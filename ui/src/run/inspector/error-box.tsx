import { printable } from "../../text/printable.ts";
import { CodeLine, ErrorDetails, sourceOf } from "../header/error-details.tsx";

interface ErrorBoxProps {
  error: { kind: string | null; message: string | null; details?: Record<string, unknown> };
}

/** An error of a task or a step run, with its line of code. */
export function ErrorBox({ error: { kind, message, details } }: ErrorBoxProps) {
  const source = sourceOf(details);
  return (
    <div class="decision-error">
      <p>
        <strong>{kind}</strong> {printable(message ?? "")}
      </p>
      {source && <CodeLine {...source} />}
      <ErrorDetails details={details} />
    </div>
  );
}
