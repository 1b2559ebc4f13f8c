"""The classic dialect for the compiler: normalises a document, and builds its model.

Keys that both dialects have are converted in place. `case`, `vars` and `sink` stay in their step, where they become its
`AfterCall`, and their retries become policies.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from noetl.classic import conversions, document_parts
from noetl.classic.call_names import RESPONSE_NAMES
from noetl.classic.chain_items import chain_items
from noetl.classic.detect import tasks_of
from noetl.classic.names import CallNames, rename_everywhere, rename_templates, renamed_text, with_nulls
from noetl.classic.nodes import as_map, free_label, insert_item, list_at, map_at
from noetl.classic.points import rename_events
from noetl.dsl.canonical import Builder, Layers, arc_of, layered, then_of
from noetl.dsl.dialect import Dialect
from noetl.dsl.document_parts import labelled_items
from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map, Seq, plain, span_in, unshare
from noetl.model import playbook as model
from noetl.model.duration import seconds

SINK = "$sink"
"""Marks a task that stores the result of another one; not valid in a document."""


def prepare(root: Map, kinds: KindSource) -> None:
    unshare(root)
    leftovers = conversions.Leftovers(kinds)  # all of them can be built
    conversions.declare_credentials(document_parts.ClassicDocument(root), kinds, leftovers)
    names, step_names = CallNames(root, kinds), {step["step"] for step in root["workflow"]}
    for step in root["workflow"]:
        rename_events(step, kinds)
        conversions.convert_loop(step)
        conversions.give_args(step)
        sinks = [sink for task in tasks_of(step.get("tool")) for sink in names.sinks_of(task)]
        if document_parts.stores_items(step):
            sinks.append(step.pop("sink"))
        _set_chain_policies(step, names)
        conversions.set_step_policies(step, names, with_vars=False)
        if "sink" in step:
            step["sink"] = _sink_in_place(step["sink"], names, None)
        if isinstance(step.get("next"), str | list):
            at = step["next"] if isinstance(step["next"], Seq) else step
            step["next"] = conversions.router_at(at, conversions.arcs_of(step, names.after_step(step), leftovers))
        if sinks:
            _append_sinks(step, sinks, names, step_names)
        for key in ("case", "vars", "sink"):
            if key in step:
                rename_templates(step, key, kinds, RESPONSE_NAMES)
    conversions.drop_entry_keys(root)
    rename_everywhere(root, kinds)


def _append_sinks(step: Map, sinks: list[Map], names: CallNames, step_names: set[str]) -> None:
    """Append sinks that follow each call: those of workbook tasks, and the sink of a loop that reads its item.

    They are marked, since they do not change the result.
    """
    items = list(labelled_items(step["tool"]))
    label, call, *_ = items[-1]
    labels = {item.label for item in items}
    if isinstance(step["tool"], Map):
        step["tool"] = list_at(call, [conversions.labelled(call, label, call)])
    for sink in sinks:
        ignores = conversions.on_error_of(step) == "ignore"
        task = conversions.sink_task(sink, names, names.in_pipeline(label, call, ignores=ignores), None)
        task[SINK] = True
        step["tool"].append(conversions.labelled(sink, free_label("sink", labels, step_names), task))


def _set_chain_policies(step: Map, names: CallNames) -> None:
    """Set the retries of calls in chains: the innermost `retry` wins; that of a whole chain becomes `again`."""
    ignore = "continue" if conversions.on_error_of(step) == "ignore" else None
    for branch in step.get("case", []):
        chain = branch.get("then", branch.get("else"))
        retry = as_map(chain).get("retry", branch.get("retry"))
        default = conversions.step_retry(step) if retry is None else retry
        if retry is not None and retry.get("scope") == "chain":
            default = map_at(step) if conversions.on_error_of(step) == "retry" else None
            branch["again"] = conversions.retry_rule(branch, retry, names.in_retry(branch), ignore=False)
        for name, body, container in list(chain_items(branch)):
            if name == "sink":
                container[name] = _sink_in_place(body, names, default)
            if name in ("next", "set", "sink"):
                continue
            call = body["tool"]
            if "retry" in body:
                call["retry"] = body.pop("retry")
            if "poll" in body:
                body["poll"]["until"] = renamed_text(with_nulls(body["poll"]["until"]), names.in_retry(call))
            for sink in reversed(names.sinks_of(call)):
                visible = names.in_pipeline(name, call, ignores=ignore is not None)
                task = conversions.sink_task(sink, names, visible, default)
                item = conversions.labelled(sink, "sink", map_at(sink, tool=task))
                place = next(i for i, other in enumerate(chain) if other is container)
                insert_item(chain, place + 1, item)
            conversions.set_policy(call, names, default, ignore=ignore)


def _sink_in_place(sink: Map, names: CallNames, default: Map | None) -> Map:
    return map_at(sink, tool=conversions.sink_task(sink, names, {"result": "result"}, default))


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
        retries = conversions.only_retries(tree)
        return model.Branch(tree.get("when"), tuple(links), tree.get("priority", 0), again, retries)

    def _sink(self, key: str, label: str, tree: Map, layers: Layers) -> model.Task:
        return replace(self.task(key, label, tree["tool"], layers), sink=True)


def _goto(label: str, tree: Map | Seq | str) -> model.Goto:
    if isinstance(tree, str):
        return model.Goto((model.Arc(tree),), label=label)
    if isinstance(tree, list):
        return model.Goto(tuple(map(arc_of, tree)), label=label)
    delay = seconds(tree.get("spec", {}).get("delay"))
    return model.Goto(tuple(map(arc_of, tree["to"])), tree.get("policy"), tree.get("priority", 0), delay, label)


def _set_task(label: str, values: Map) -> model.Task:
    then = model.Then("continue", set_ctx={"vars": {"$merge": plain(values)}})
    return model.Task(label, "noop", policy=(model.Rule(None, then),))


CLASSIC = Dialect(
    name="classic",
    document=document_parts.ClassicDocument,
    sites=document_parts.ClassicSiteFinder,
    prepare=prepare,
    builder=ClassicBuilder,
)
