"""Builds the model of classic steps: `vars`, `case` and `sink` become the `AfterCall` of their step."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from noetl.classic.nodes import free_label
from noetl.classic.outline import chain_items
from noetl.dsl.canonical import Builder, Layers, arc_of, layered, then_of
from noetl.dsl.outline import labelled_items
from noetl.dsl.tree import Map, Seq, plain, span_in
from noetl.model import playbook as model
from noetl.model.duration import seconds

SINK = "$sink"
"""Marks a task that stores the result of another one; not valid in a document."""


class ClassicBuilder(Builder):
    def task(self, key: str, label: str, tree: Map, layers: Layers) -> model.Task:
        task = super().task(key, label, tree, layers)
        return replace(task, sink=True) if SINK in tree else task

    def after_call(self, step: str, tree: Map, layers: Layers) -> model.AfterCall | None:
        if not any(key in tree for key in ("case", "vars", "sink")):
            return None
        if "vars" in tree:
            self._place(f"{step}/vars/set", span_in(tree, "vars"))
        return model.AfterCall(
            view=self._view(tree.get("tool")),
            vars=_set_task("set", tree["vars"]) if tree.get("vars") else None,
            cases=self._cases(step, tree, layers) if "case" in tree else None,
            sink=self._sink(f"{step}/sink/store", "store", tree["sink"], layers) if "sink" in tree else None,
        )

    def _view(self, tool: Map | Seq | None) -> Any:
        """The part of the last call's result that classic templates read as `result`."""
        calls = [item.task for item in labelled_items(tool) if SINK not in item.task] if tool else []
        if not calls:
            return "value"
        tree = calls[-1]
        while tree["kind"] == "workbook":
            tree = self.workbook[tree["name"]]
        kind = self.kinds.get(tree["kind"])
        return "value" if kind is None else kind.result

    def _cases(self, step: str, tree: Map, layers: Layers) -> model.Cases:
        spec = tree.get("spec", {})
        branches = []
        for i, branch in enumerate(tree["case"]):
            self._place(f"{step}/case_{i}", span_in(tree["case"], i))
            branches.append(self._branch(f"{step}/case_{i}", branch, layers))
        return model.Cases(
            tuple(branches),
            mode=spec.get("case_mode", "exclusive"),
            evaluate=spec.get("eval_mode", "on_entry"),
            order=spec.get("branch_order", "source"),
            next_policy=spec.get("next_policy", "end_step"),
        )

    def _branch(self, key: str, tree: Map, layers: Layers) -> model.Branch:
        chain = list(chain_items(tree))
        links: list[model.Task | model.Goto] = []
        labels = {item.name for item in chain if item.is_call}
        for item in chain:
            name, body, container = item
            label = name if item.is_call else free_label(name, labels)
            place = f"{key}/{label}"
            if name in ("set", "next"):
                self._place(place, span_in(container, name))
                links.append(_set_task(label, body) if name == "set" else _goto(label, body))
                continue
            if name == "sink":
                links.append(self._sink(place, label, body, layers))
                continue
            poll, loop = None, body.get("poll")
            if loop is not None:
                interval, deadline = seconds(loop.get("interval", 1)) or 0.0, seconds(loop.get("deadline"))
                poll = model.Poll(loop["until"], interval, loop.get("max_attempts"), deadline)
            args = layered(body.get("args"), body["tool"].get("args"))
            links.append(replace(self.task(place, name, body["tool"], layers), args=args, poll=poll))
        again = model.Rule(tree["again"]["when"], then_of(tree["again"]["then"])) if "again" in tree else None
        return model.Branch(tree.get("when"), tuple(links), tree.get("priority", 0), again)

    def _sink(self, key: str, label: str, tree: Map, layers: Layers) -> model.Task:
        return replace(self.task(key, label, tree["tool"], layers), sink=True)


def _goto(label: str, tree: Map | Seq | str) -> model.Goto:
    if isinstance(tree, str):
        return model.Goto((model.Arc(tree),), label=label)
    if isinstance(tree, list):
        return model.Goto(tuple(map(arc_of, tree)), label=label)
    pause = tree.get("spec", {}).get("delay")
    delay = None if pause is None else seconds(pause)
    return model.Goto(tuple(map(arc_of, tree["to"])), tree.get("policy"), tree.get("priority", 0), delay, label)


def _set_task(label: str, values: Map) -> model.Task:
    then = model.Then("continue", set_ctx={"vars": {"$merge": plain(values)}})
    return model.Task(label, "noop", policy=(model.Rule(None, then),))
