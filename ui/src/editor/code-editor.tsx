import { useEffect, useRef, useState } from "preact/hooks";
import type { Finding } from "../api/types.gen.ts";
import { Loading } from "../parts/states.tsx";
import type { CodeMirror } from "./code-mirror.ts";
import type { EditorHandle } from "./editor-handle.ts";
import "./code-editor.css";

interface CodeEditorProps {
  label: string;
  text: string; // the initial text; another `key` starts a new editor
  readOnly?: boolean;
  problems: Finding[] | null; // of the current text; null: unknown, the marks stay
  line?: number | null; // where to begin; as long as the editor loads it can change
  handle: EditorHandle;
  onText: (text: string) => void;
  onLine?: (line: number) => void;
  onSave?: () => void;
  onStart?: () => void;
}

/** The text editor, loaded when it is first shown. */
export function CodeEditor(props: CodeEditorProps) {
  const { label, readOnly = false, problems, handle } = props;
  const host = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  latest.current = props;
  const [editor, setEditor] = useState<CodeMirror | null>(null);
  useEffect(() => {
    let created: CodeMirror | null = null;
    let wanted = true;
    void import("./code-mirror.ts").then((module) => {
      if (!wanted || !host.current) return;
      created = new module.CodeMirror(host.current, {
        label,
        text: latest.current.text,
        readOnly,
        onText: (text) => latest.current.onText(text),
        onLine: (at) => latest.current.onLine?.(at),
        onSave: () => latest.current.onSave?.(),
        onStart: () => latest.current.onStart?.(),
      });
      if (latest.current.line) created.goToLine(latest.current.line, false);
      setEditor(created);
    });
    return () => {
      wanted = false;
      created?.destroy();
    };
  }, []);
  useEffect(() => editor?.setReadOnly(readOnly), [editor, readOnly]);
  useEffect(() => {
    if (problems) editor?.setProblems(problems);
  }, [editor, problems]);
  useEffect(() => {
    handle.set(editor); // after its problems, which actions can ask for
    return () => handle.set(null);
  }, [editor]);
  return (
    <>
      {!editor && <Loading rows={10} />}
      <div ref={host} class={editor ? "code-editor" : "code-editor waiting"} />
    </>
  );
}
