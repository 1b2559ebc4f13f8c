/** What the run knew at the event of the view: inputs, ctx, results, signals, timers. */

import { useEffect, useMemo } from "preact/hooks";
import { useResource } from "../../api/resource.ts";
import type { StepRun } from "../../api/types.gen.ts";
import { parameter, setQuery } from "../../location.ts";
import { TreeState } from "../../parts/json-state.ts";
import { JsonTree } from "../../parts/json-tree.tsx";
import { Loading } from "../../parts/states.tsx";
import { count } from "../../text/number.ts";
import type { RunModel } from "../model.ts";
import type { PanelProps } from "../panel/panel.tsx";
import { selection } from "../selection.ts";
import { CompareCtx } from "./compare.tsx";
import { above, dataRoots, isExpression } from "./roots.ts";
import "./data.css";

export default function Data({ model }: PanelProps) {
  const tree = useMemo(() => treeOf(parameter("path")), [model]);
  const state = model.state.value;
  const args = useArgs(model);
  const roots = useMemo(() => (state ? dataRoots(state, args) : []), [state, args]);
  useEffect(() => {
    const path = parameter("path");
    if (path) tree.active.value = path;
  }, [tree, parameter("path")]);
  if (!state) return <Loading />;
  const isOld = model.isPast.value && state.seq !== model.at.value;
  return (
    <div class="panel-content">
      <div class="panel-bar data-bar">
        <span class={isOld ? "quiet" : "secondary"}>
          {isOld ? `Loading event ${count(model.at.value)}` : `After event ${count(state.seq)}`}
        </span>
        <CompareCtx model={model} state={state} />
      </div>
      <div class="data-tree">
        <JsonTree
          roots={roots}
          prefix=""
          label="Data of the run"
          search={parameter("q")}
          state={tree}
          isExpression={isExpression}
          onActive={(id) => setQuery({ path: id }, { replace: true })}
        />
      </div>
    </div>
  );
}

/** A tree that shows inputs and ctx, and the value that the URL names. */
function treeOf(path: string): TreeState {
  const tree = new TreeState();
  tree.open.value = new Map(["workload", "ctx", ...above(path)].map((id) => [id, 100]));
  tree.active.value = path;
  return tree;
}

/** The arguments of the selected step run. */
function useArgs(model: RunModel): unknown {
  const { run, item } = selection.value;
  const query = new URLSearchParams({ run, ...(item === null ? {} : { item: String(item) }) });
  return useResource<StepRun>(run ? model.path(`step-run?${query}`) : null).data.value?.args;
}
