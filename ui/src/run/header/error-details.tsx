/** The details of an error beside its message: the line of code, the traceback, the body of an HTTP response. */

import { cut, printable } from "../../text/printable.ts";
import "./error-details.css";

interface Source {
  line: number;
  column: number | null;
  text: string;
}

const BODY_CHARACTERS = 200;

export function sourceOf(details: Record<string, unknown> | undefined): Source | null {
  const source = details?.source as Partial<Source> | undefined;
  if (typeof source?.text !== "string" || typeof source.line !== "number") return null;
  return { line: source.line, column: source.column ?? null, text: source.text };
}

export function CodeLine({ line, column, text }: Source) {
  const indent = text.length - text.trimStart().length;
  const caret = column === null ? -1 : Math.max(0, column - 1 - indent);
  return (
    <pre class="code-line" tabIndex={0}>
      <span class="code-number">{line}</span>
      {printable(text.trim())}
      {caret >= 0 && `\n${" ".repeat(String(line).length + 2 + caret)}^`}
    </pre>
  );
}

export function ErrorDetails({ details }: { details: Record<string, unknown> | undefined }) {
  const traceback = Array.isArray(details?.traceback) ? details.traceback.join("\n") : "";
  const body = details?.body === undefined ? "" : bodyText(details.body);
  return (
    <>
      {traceback && (
        <details class="traceback">
          <summary>Traceback</summary>
          <pre tabIndex={0}>{printable(traceback)}</pre>
        </details>
      )}
      {body && (
        <div class="response-body">
          <small>Response body</small>
          <pre tabIndex={0}>{printable(body.length > BODY_CHARACTERS ? `${cut(body, BODY_CHARACTERS)}...` : body)}</pre>
        </div>
      )}
    </>
  );
}

function bodyText(body: unknown): string {
  return typeof body === "string" ? body : JSON.stringify(body);
}
