import { useEffect, useMemo } from "preact/hooks";
import { CodeEditor } from "../editor/code-editor.tsx";
import { EditorHandle } from "../editor/editor-handle.ts";
import { FindingList } from "../editor/finding-list.tsx";
import { problemWords } from "../editor/validation.ts";
import { Button } from "../parts/button.tsx";
import type { PlaybookChoiceProps } from "./playbook-choice.tsx";
import { ReplayRun } from "./replay.ts";
import { ReplayResult } from "./replay-result.tsx";

/** An editor for the playbook of the new run, which is validated and can be replayed against the log. */
export default function EditedPlaybook({
  id,
  digest,
  at,
  latest,
  edited,
  validation,
  onFork,
  source,
}: PlaybookChoiceProps & { source: string }) {
  const code = useMemo(() => new EditorHandle(), []);
  const replay = useMemo(() => new ReplayRun(id), [id]);
  useEffect(() => {
    edited.value ||= source;
    validation.check(edited.value, 0);
    return () => {
      validation.stop();
      replay.stop();
    };
  }, []);
  const validity = validation.validity.value;
  const text = edited.value ?? source;
  const isUnchanged = text === source;
  const reason = isUnchanged ? "The playbook is not changed." : validity?.valid ? null : "The playbook has errors.";
  return (
    <>
      <div class="fork-editor">
        <CodeEditor
          label="Edited playbook"
          text={edited.value || source}
          problems={validation.isCurrent.value ? (validity?.problems ?? null) : null}
          handle={code}
          onText={(changed) => {
            edited.value = changed;
            validation.check(changed);
          }}
        />
      </div>
      <p class={validity?.valid === false ? "fork-problems error" : "fork-problems"} role="status">
        {problemWords(validity)}
      </p>
      {validity && validity.problems.length > 0 && (
        <FindingList
          findings={validity.problems}
          onShow={(finding) => code.use((editor) => editor.goToProblem(finding))}
          onFix={(finding) => code.use((editor) => editor.fix(finding))}
        />
      )}
      <header>
        <h2>Replay</h2>
        <Button role="author" reason={reason} busy={replay.running.value} onClick={() => void replay.start(text)}>
          {replay.result.value ? "Replay again" : "Replay against the log"}
        </Button>
      </header>
      <ReplayResult replay={replay} text={text} latest={latest} at={at} digest={digest} onFork={onFork} />
    </>
  );
}
