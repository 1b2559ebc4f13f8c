import type { Signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { useResource } from "../api/resource.ts";
import type { StoredPlaybook } from "../api/types.gen.ts";
import { CodeEditor } from "../editor/code-editor.tsx";
import type { CodeMirror } from "../editor/code-mirror.ts";
import { problemWords, type Validation } from "../editor/validation.ts";
import { Button } from "../parts/button.tsx";
import { FindingList } from "../parts/finding-list.tsx";
import { Loaded } from "../parts/states.tsx";
import { ReplayRun } from "./replay.ts";
import { ReplayResult } from "./replay-result.tsx";

interface PlaybookChoiceProps {
  id: string;
  digest: string; // of the playbook in force at the event
  at: number;
  latest: number;
  edited: Signal<string | null>; // null: the same playbook
  validation: Validation;
  onFork: (seq: number) => void;
}

/** The playbook of the new run: the same, or an edited one that is validated and can be replayed against the log. */
export function PlaybookChoice(props: PlaybookChoiceProps) {
  const { digest, edited, validation } = props;
  const source = useResource<StoredPlaybook>(edited.value === null ? null : `/texts/${digest}`);
  return (
    <section class="fork-part fork-playbook">
      <header>
        <h2>Playbook</h2>
        <Button
          pressed={edited.value === null}
          onClick={() => {
            edited.value = null;
            validation.stop();
          }}
        >
          Same
        </Button>
        <Button
          pressed={edited.value !== null}
          role="author"
          onClick={() => {
            edited.value ??= "";
          }}
        >
          Edited
        </Button>
      </header>
      {edited.value === null ? (
        <p class="secondary">The new run continues with the playbook that is in force at the event.</p>
      ) : (
        <Loaded of={source}>{(data) => <EditedPlaybook {...props} source={data.text} />}</Loaded>
      )}
    </section>
  );
}

function EditedPlaybook({
  id,
  digest,
  at,
  latest,
  edited,
  validation,
  onFork,
  source,
}: PlaybookChoiceProps & { source: string }) {
  const editor = useRef<CodeMirror | null>(null);
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
          handle={editor}
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
          onShow={(finding) => editor.current?.goToProblem(finding)}
          onFix={(finding) => editor.current?.fix(finding)}
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
