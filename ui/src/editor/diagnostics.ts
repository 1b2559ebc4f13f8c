/** Problems of the server as marks of the editor. */

import type { Diagnostic } from "@codemirror/lint";
import type { Text } from "@codemirror/state";
import type { EditorView } from "@codemirror/view";
import type { Finding } from "../api/types.gen.ts";
import { indexOfColumn } from "./columns.ts";

export function diagnosticsOf(doc: Text, findings: Finding[]): Diagnostic[] {
  return findings.map((finding) => diagnosticOf(doc, finding)).sort((a, b) => a.from - b.from);
}

export function rangeOf(doc: Text, { line, column, end_line, end_column }: Finding): { from: number; to: number } {
  const from = offset(doc, line, column);
  const to = offset(doc, end_line || line, end_column || column);
  if (to > from) return { from, to };
  const end = doc.lineAt(from).to;
  return { from, to: Math.max(from, Math.min(end, from + 1)) };
}

function offset(doc: Text, line: number, column: number): number {
  const { from, text } = doc.line(Math.max(1, Math.min(line, doc.lines)));
  return from + indexOfColumn(text, column);
}

function diagnosticOf(doc: Text, finding: Finding): Diagnostic {
  const { message, hint, code, severity, fix } = finding;
  return {
    ...rangeOf(doc, finding),
    severity,
    source: code,
    message: `${message}${hint ? `\n${hint}` : ""} ${code}`,
    ...(fix ? { actions: [{ name: "Fix", apply: applyFix(fix.text) }] } : {}),
  };
}

function applyFix(text: string) {
  return (view: EditorView, from: number, to: number) => view.dispatch({ changes: { from, to, insert: text } });
}
