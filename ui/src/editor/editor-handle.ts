import type { CodeMirror } from "./code-mirror.ts";

type Action = (editor: CodeMirror) => void;

/** The text editor for the parts beside it. The latest action before it has loaded is done when it has. */
export class EditorHandle {
  #editor: CodeMirror | null = null;
  #waiting: Action | null = null;

  use(action: Action): void {
    if (this.#editor) action(this.#editor);
    else this.#waiting = action;
  }

  set(editor: CodeMirror | null): void {
    this.#editor = editor;
    if (!editor) return;
    this.#waiting?.(editor);
    this.#waiting = null;
  }
}
