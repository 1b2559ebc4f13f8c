"""Rewrites a classic document in the canonical dialect, for `noetl migrate`."""

from __future__ import annotations

from noetl.classic.chains import ClassicDocument, chain_items
from noetl.classic.detect import CASE_SPEC, tasks_of
from noetl.classic.leftovers import Leftover, Leftovers
from noetl.classic.names import CallNames, path_of, rename_everywhere
from noetl.classic.nodes import as_map, free_label, insert_item, list_at, map_at
from noetl.classic.policies import set_step_policies
from noetl.classic.prepare import drop_entry_keys
from noetl.classic.routes import EVENT, ClassicRoutes
from noetl.classic.sinks import labelled, sink_task
from noetl.classic.steps import Credentials, convert_loop, give_args
from noetl.dsl.outline import labelled_items
from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map, unshare


def rewrite(root: Map, kinds: KindSource) -> list[Leftover]:
    """Rewrite the document in place; returns the constructs that were not rewritten."""
    return _Rewriter(root, kinds).run()


class _Rewriter:
    def __init__(self, root: Map, kinds: KindSource) -> None:
        self.root, self.kinds = root, kinds
        self.steps = root["workflow"]
        self.step_names: set[str] = {step["step"] for step in self.steps}
        self.leftovers = Leftovers(kinds)

    def run(self) -> Leftovers:
        unshare(self.root)
        Credentials(ClassicDocument(self.root), self.kinds, self.leftovers).declare()
        self.names = CallNames(self.root, self.kinds)
        position = 0
        while position < len(self.steps):
            for step in self._step(self.steps[position]):
                position += 1
                insert_item(self.steps, position, step)
            position += 1
        drop_entry_keys(self.root)
        rename_everywhere(self.root, self.kinds)
        return self.leftovers

    def _step(self, step: Map) -> list[Map]:
        """Rewrite a step; returns the steps that its branches became."""
        self.leftovers.step = step["step"]
        local = self._local_names(step)
        if "tool" not in step and ("vars" in step or "sink" in step):
            step["tool"] = map_at(step, kind="noop")
        convert_loop(step)
        give_args(step)
        sinks = [sink for task in tasks_of(step.get("tool")) for sink in self.names.sinks_of(task)]
        before = len(self.leftovers)
        stored = self._sink_label(step, len(sinks)) if "sink" in step else None
        routes = ClassicRoutes(step, self.names, self.leftovers, local, self.step_names, stored)
        router = routes.router()
        self._refuse_outside(step)
        if len(self.leftovers) > before:  # the text of the step stays unchanged
            self.step_names -= {extra["step"] for extra in routes.added}
            return []
        set_step_policies(step, self.names, with_vars=True)
        self._append_sinks(step, [*sinks, *([step["sink"]] if "sink" in step else [])])
        for key in ("case", "vars", "sink"):
            step.pop(key, None)
        spec = as_map(step.get("spec"))
        for key in CASE_SPEC:
            spec.pop(key, None)
        if "spec" in step and not spec:
            del step["spec"]
        if router is not None:
            step["next"] = router
        return routes.added

    def _local_names(self, step: Map) -> frozenset[str]:
        """Bare names that are visible only inside the step."""
        loop = as_map(step.get("loop"))
        names = {loop[key] for key in ("iterator", "element") if key in loop}
        names |= {"index", "parent", "loop_index", "iter"}
        names |= {"tasks", "_prev", "_task", "_attempt"}
        names |= {item.label for item in labelled_items(step["tool"])} if "tool" in step else set()
        names |= {name for key in as_map(step.get("args")) for name in (key, f"args.{key}")}
        return frozenset(names - set(as_map(self.root.get("workload"))))

    def _refuse_outside(self, step: Map) -> None:
        """Refuse `vars` and `sink` that read the whole loop or the event, which tasks of a pipeline cannot see."""
        if "loop" in step and "sink" in step:
            construct = "`sink` of a loop step (it stores the results of all items)"
            self.leftovers.refuse(step, "sink", construct, "move it to a step that follows the loop")
        chained = [item for branch in step.get("case", []) for item in chain_items(branch) if item.name != "next"]
        if "sink" in step and chained:
            construct = "`sink` of a step whose branches have chains (it runs after them)"
            self.leftovers.refuse(step, "sink", construct, "move it to a separate step, or into the chains")
        if "loop" in step and "vars" in step:
            construct = "`vars` of a loop step (they read the results of all items)"
            self.leftovers.refuse(step, "vars", construct, "move them to a step that follows the loop")
        for key in ("sink", "vars"):
            if key in step:
                self.leftovers.refuse_reads(step, key, EVENT, f"in `{key}`")

    def _sink_label(self, step: Map, before: int) -> str:
        """The label that the step's own sink will have in its pipeline, after that many others."""
        labels = self._labels(step)
        for _ in range(before):
            free_label("sink", labels, self.step_names)
        return free_label("sink", labels, self.step_names)

    def _labels(self, step: Map) -> set[str]:
        """The labels of the pipeline; a single task will be called `call`."""
        if isinstance(step["tool"], Map):
            return {free_label("call", set(), self.step_names)}
        return {item.label for item in labelled_items(step["tool"])}

    def _append_sinks(self, step: Map, sinks: list[Map]) -> None:
        """Append the sinks to the pipeline, and restore the result of the call after them."""
        if not sinks:
            return
        tool, labels = step["tool"], self._labels(step)
        if isinstance(tool, Map):
            (label,), call = labels, tool
            pipeline = list_at(tool, [labelled(tool, label, tool)])
        else:
            pipeline = tool
            *_, (label, call, _, _) = labelled_items(tool)
        names = self.names.in_pipeline(label, call)
        for sink in sinks:
            task = sink_task(sink, self.names, names, None)
            pipeline.append(labelled(sink, free_label("sink", labels, self.step_names), task))
        result = map_at(tool, kind="noop", result=f"{{{{ {path_of('tasks', label)}.result }}}}")
        pipeline.append(labelled(tool, free_label("result", labels, self.step_names), result))
        step["tool"] = pipeline
