/** Writes a playbook: text, problems and graph side by side. */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { Finding } from "../api/types.gen.ts";
import { useKeys } from "../keys.ts";
import { go, parameter, setQuery } from "../location.ts";
import { isPhone } from "../look/phone.ts";
import { hasRole } from "../me.ts";
import { Splitter } from "../parts/split.tsx";
import { Loading, ProblemBox } from "../parts/states.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { announce, toast } from "../parts/toast.tsx";
import { sizePreference } from "../preferences.ts";
import { href } from "../routes.ts";
import type { ViewProps } from "../shell/app.tsx";
import { CodeEditor } from "./code-editor.tsx";
import { EditorHandle } from "./editor-handle.ts";
import { FindingList } from "./finding-list.tsx";
import { EditorHeader, startReason } from "./header.tsx";
import { EditorModel } from "./model.ts";
import { ProblemPage } from "./problem-page.tsx";
import { GraphSide } from "./side.tsx";
import "./page.css";

const graphWidth = sizePreference("editor-graph-width", 520, 280, 900);
const problemsHeight = sizePreference("editor-problems-height", 132, 60, 400);

export default function EditorPage({ params }: ViewProps) {
  const path = params.path ?? "";
  const model = useMemo(() => new EditorModel(path), [path]);
  const load = () => model.load(Number(parameter("version")) || null);
  useEffect(() => {
    model.start();
    void load();
    return () => model.stop();
  }, [model]);
  if (model.problem.value) return <ProblemBox problem={model.problem.value} onRetry={load} />;
  return model.loaded.value ? <Editor model={model} /> : <Loading />;
}

function Editor({ model }: { model: EditorModel }) {
  const code = useMemo(() => new EditorHandle(), [model]);
  const line = useSignal(Number(parameter("line")) || 1);
  const pane = useSignal("text");
  const { validity, isCurrent } = model.validation;
  const problems = validity.value?.problems ?? [];
  const active = Number(parameter("problem")) - 1;
  const readOnly = !hasRole("author");

  const save = () => {
    if (readOnly) return;
    if (!model.save())
      toast("The draft was not saved: the browser does not allow storage for this site.", { tone: "bad" });
    else announce(model.isDraft.value ? "Draft saved." : "There is nothing to save.");
  };
  const start = () => {
    const reason = startReason(model);
    if (reason) toast(reason, { tone: "bad" });
    else go(href("start", { path: model.path }));
  };
  const explained = useSignal(""); // the code of a problem
  const show = (finding: Finding, place: number) => {
    pane.value = "text";
    setQuery({ problem: place + 1 }, { replace: true });
    line.value = finding.line;
    code.use((editor) => editor.goToProblem(finding));
  };
  const nextProblem = () => code.use((editor) => editor.nextProblem());
  useKeys("editor", { "next-problem": nextProblem, "save-draft": save, start }, [model]);
  const discard = () => {
    model.discard();
    code.use((editor) => editor.setText(model.text.value));
  };
  const shows = (name: string) => !isPhone.value || pane.value === name;
  return (
    <div class="editor">
      <EditorHeader model={model} onDiscard={discard} readOnly={readOnly} />
      {isPhone.value && (
        <Tabs
          label="Parts of the editor"
          active={pane.value}
          tabs={[
            { name: "text", label: "Text" },
            { name: "graph", label: "Graph" },
            { name: "problems", label: "Problems", count: problems.length },
          ]}
          onChoose={(name) => {
            pane.value = name;
          }}
        />
      )}
      <div class="editor-body">
        <div class={shows("text") ? "editor-text" : "editor-text away"}>
          <CodeEditor
            label={`Text of ${model.path || "a new playbook"}`}
            text={model.text.value}
            readOnly={readOnly}
            problems={isCurrent.value ? problems : null}
            line={line.value}
            handle={code}
            onText={(text) => model.change(text)}
            onLine={(at) => {
              line.value = at;
            }}
            onSave={save}
            onStart={start}
          />
        </div>
        {!isPhone.value && <Splitter size={graphWidth} least={280} most={900} label="Width of the graph" axis="x" />}
        {shows("graph") && (
          <GraphSide
            model={model}
            line={line.value}
            active={problems[active]}
            width={isPhone.value ? null : graphWidth.value}
            onStep={(node) => {
              pane.value = "text";
              line.value = node.line;
              code.use((editor) => editor.goToLine(node.line));
            }}
          />
        )}
      </div>
      {!isPhone.value && (
        <Splitter size={problemsHeight} least={60} most={400} label="Height of the problems" axis="y" />
      )}
      {explained.value && (
        <ProblemPage
          code={explained.value}
          onClose={() => {
            explained.value = "";
          }}
        />
      )}
      {shows("problems") && (
        <section
          class="editor-problems"
          aria-label="Problems"
          style={isPhone.value ? {} : { height: `${problemsHeight.value}px` }}
        >
          {model.validation.problem.value && <ProblemBox problem={model.validation.problem.value} />}
          {problems.length ? (
            <FindingList
              findings={problems}
              active={active}
              onShow={show}
              onExplain={({ code }) => {
                explained.value = code;
              }}
              {...(readOnly ? {} : { onFix: (finding: Finding) => code.use((editor) => editor.fix(finding)) })}
            />
          ) : (
            <p class="secondary">{validity.value ? "No problems." : ""}</p>
          )}
        </section>
      )}
    </div>
  );
}
