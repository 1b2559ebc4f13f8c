/** The text editor: CodeMirror in a shadow root, where its styles obey the content security policy. */

import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  startCompletion,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, nextDiagnostic, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, Prec } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import type { Finding } from "../api/types.gen.ts";
import { complete, hover } from "./assist.ts";
import { diagnosticsOf, rangeOf } from "./diagnostics.ts";
import { highlighting, theme } from "./theme.ts";

interface CodeOptions {
  label: string;
  text: string;
  readOnly: boolean;
  onText: (text: string) => void;
  onLine: (line: number) => void; // where the cursor is
  onSave: () => void;
  onStart: () => void;
}

export class CodeMirror {
  readonly #view: EditorView;
  readonly #access = new Compartment();

  constructor(host: HTMLElement, options: CodeOptions) {
    const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
    this.#view = new EditorView({ state: this.#state(options), root, parent: root });
  }

  #state(options: CodeOptions): EditorState {
    const run = (action: () => void) => () => {
      action();
      return true;
    };
    return EditorState.create({
      doc: options.text,
      extensions: [
        lineNumbers(),
        highlightActiveLineGutter(),
        lintGutter(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        highlightActiveLine(),
        highlightSelectionMatches(),
        yaml(),
        syntaxHighlighting(highlighting),
        autocompletion({ override: [complete], icons: false }),
        hover,
        EditorState.tabSize.of(2),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": options.label, tabindex: "0" }),
        keymap.of([
          { key: "Mod-s", run: run(options.onSave), preventDefault: true },
          { key: "Mod-Enter", run: run(options.onStart), preventDefault: true },
          { key: "Ctrl-Space", run: startCompletion },
          ...closeBracketsKeymap,
          ...completionKeymap,
          ...searchKeymap,
          ...lintKeymap,
          ...historyKeymap,
          indentWithTab, // Esc, then Tab leaves the editor
          ...defaultKeymap,
        ]),
        domKeys,
        this.#access.of(access(options.readOnly)),
        theme,
        EditorView.updateListener.of((update) => {
          if (update.docChanged) options.onText(update.state.doc.toString());
          if (update.docChanged || update.selectionSet)
            options.onLine(update.state.doc.lineAt(update.state.selection.main.head).number);
        }),
      ],
    });
  }

  setText(text: string): void {
    const { doc } = this.#view.state;
    if (doc.toString() !== text) this.#view.dispatch({ changes: { from: 0, to: doc.length, insert: text } });
  }

  setReadOnly(readOnly: boolean): void {
    this.#view.dispatch({ effects: this.#access.reconfigure(access(readOnly)) });
  }

  /** Of the current text: problems of an older text would be marked at the wrong places. */
  setProblems(findings: Finding[]): void {
    const { state } = this.#view;
    this.#view.dispatch(setDiagnostics(state, diagnosticsOf(state.doc, findings)));
  }

  nextProblem(): void {
    this.#view.focus();
    nextDiagnostic(this.#view);
  }

  goToLine(line: number, focus = true): void {
    const { doc } = this.#view.state;
    const { from } = doc.line(Math.max(1, Math.min(line, doc.lines)));
    this.#show(from, from, focus);
  }

  goToProblem(finding: Finding): void {
    const { from, to } = rangeOf(this.#view.state.doc, finding);
    this.#show(from, to, true);
  }

  /** Replaces the text of a problem by its fix; the change can be undone. */
  fix(finding: Finding): void {
    if (!finding.fix) return;
    this.#view.dispatch({ changes: { ...rangeOf(this.#view.state.doc, finding), insert: finding.fix.text } });
    this.#view.focus();
  }

  destroy(): void {
    this.#view.destroy();
  }

  #show(anchor: number, head: number, focus: boolean): void {
    this.#view.dispatch({
      selection: { anchor, head },
      effects: EditorView.scrollIntoView(anchor, { y: "center" }),
    });
    if (focus) this.#view.focus();
  }
}

const LEAVE_MS = 2000;

const domKeys = Prec.highest(
  EditorView.domEventHandlers({
    /** After Esc, Tab leaves the editor, also if Esc closed something. */
    keydown: (event, view) => {
      if (event.key === "Escape") view.setTabFocusMode(LEAVE_MS);
      return false;
    },
    /** Replaces text of several lines: the browser itself would add inline styles, which the policy forbids. */
    beforeinput: (event, view) => {
      const { main } = view.state.selection;
      const isOneLine = view.state.doc.lineAt(main.from).number === view.state.doc.lineAt(main.to).number;
      if (isOneLine || event.inputType !== "insertText" || event.data === null || view.composing) return false;
      view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
      event.preventDefault();
      return true;
    },
  }),
);

function access(readOnly: boolean) {
  return [EditorState.readOnly.of(readOnly), EditorView.editable.of(!readOnly)];
}
