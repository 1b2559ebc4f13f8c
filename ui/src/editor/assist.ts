/** Completion and hover of the editor, from the server: keys, kinds, steps, labels, ctx keys, filters. */

import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import type { EditorState } from "@codemirror/state";
import { hoverTooltip } from "@codemirror/view";
import { request } from "../api/client.ts";
import type { Assist, Completion as Suggestion } from "../api/types.gen.ts";
import { columnOfIndex, indexOfColumn } from "./columns.ts";

const TYPES: Record<Suggestion["kind"], string> = {
  credential: "constant",
  field: "property",
  filter: "function",
  function: "function",
  key: "property",
  kind: "type",
  name: "variable",
  step: "class",
  task: "method",
  test: "function",
  value: "enum",
};
const WORD = /[\w$-]*$/;

async function assistAt(state: EditorState, at: number, signal?: AbortSignal): Promise<Assist | null> {
  const line = state.doc.lineAt(at);
  const query = { line: line.number, column: columnOfIndex(line.text, at - line.from) };
  const options = { query, yaml: state.doc.toString(), ...(signal ? { signal } : {}) };
  // Help is optional: without an answer the user goes on typing.
  return request<Assist>("POST", "/playbooks/assist", options).catch(() => null);
}

export async function complete(context: CompletionContext): Promise<CompletionResult | null> {
  const word = context.matchBefore(WORD);
  const before = context.state.sliceDoc(Math.max(0, context.pos - 1), context.pos);
  if (!context.explicit && !(word && word.to > word.from) && !/[.:|] ?/.test(before)) return null;
  const abort = new AbortController();
  context.addEventListener("abort", () => abort.abort());
  const answer = await assistAt(context.state, context.pos, abort.signal);
  if (context.aborted || !answer?.completions.length) return null;
  return { from: word?.from ?? context.pos, options: answer.completions.map(option), validFor: /^[\w$-]*$/ };
}

function option({ label, kind, detail, insert, doc }: Suggestion): Completion {
  return { label, type: TYPES[kind], detail, apply: insert, ...(doc ? { info: () => text(doc) } : {}) };
}

function text(content: string): HTMLElement {
  const element = document.createElement("div");
  element.textContent = content;
  return element;
}

export const hover = hoverTooltip(async (view, at) => {
  const answer = (await assistAt(view.state, at))?.hover;
  if (!answer) return null;
  const offset = ({ line, column }: { line: number; column: number }) => {
    const { from, text } = view.state.doc.line(Math.min(line, view.state.doc.lines));
    return from + indexOfColumn(text, column);
  };
  return { pos: offset(answer.from), end: offset(answer.to), create: () => ({ dom: text(answer.text) }) };
});
