"""Normalises a classic document before it is built.

Keys that both dialects have are converted in place. `case`, `vars` and `sink` stay in their step, and their retries
become policies.
"""

from __future__ import annotations

from noetl.classic.build import SINK
from noetl.classic.chains import ClassicDocument, chain_items
from noetl.classic.detect import tasks_of
from noetl.classic.leftovers import Leftovers
from noetl.classic.names import CallNames, rename_everywhere, renamed_text
from noetl.classic.nodes import as_list, as_map, free_label, insert_item, list_at, map_at, position_of
from noetl.classic.policies import on_error_of, retry_rule, set_policy, set_step_policies, step_retry
from noetl.classic.sinks import labelled, sink_task
from noetl.classic.steps import Credentials, arcs_of, convert_loop, give_args, router_at
from noetl.dsl.outline import labelled_items
from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map, Seq, unshare


def prepare(root: Map, kinds: KindSource) -> None:
    unshare(root)
    leftovers = Leftovers(kinds)  # all of them can be built
    Credentials(ClassicDocument(root), kinds, leftovers).declare()
    preparer = _Preparer(CallNames(root, kinds), {step["step"] for step in root["workflow"]}, leftovers)
    for step in root["workflow"]:
        preparer.step(step)
    drop_entry_keys(root)
    rename_everywhere(root, kinds)


def drop_entry_keys(root: Map) -> None:
    """Remove the keys of workbook entries that were copied to their callers."""
    for entry in as_list(root.get("workbook")):
        entry.pop("sink", None)
        as_map(entry.get("tool")).pop("retry", None)


class _Preparer:
    def __init__(self, names: CallNames, step_names: set[str], leftovers: Leftovers) -> None:
        self.names, self.step_names, self.leftovers = names, step_names, leftovers

    def step(self, step: Map) -> None:
        convert_loop(step)
        give_args(step)
        sinks = [sink for task in tasks_of(step.get("tool")) for sink in self.names.sinks_of(task)]
        self._chains(step)
        set_step_policies(step, self.names, with_vars=False)
        if "sink" in step:
            step["sink"] = self._sink_in_place(step["sink"], None)
        if isinstance(step.get("next"), str | list):
            at = step["next"] if isinstance(step["next"], Seq) else step
            step["next"] = router_at(at, arcs_of(step, self.names.after_step(step), self.leftovers))
        if sinks:
            self._append_sinks(step, sinks)

    def _append_sinks(self, step: Map, sinks: list[Map]) -> None:
        """Sinks of workbook tasks follow the call. They are marked, since they do not change its result."""
        items = list(labelled_items(step["tool"]))
        label, call, *_ = items[-1]
        labels = {item.label for item in items}
        if isinstance(step["tool"], Map):
            step["tool"] = list_at(call, [labelled(call, label, call)])
        for sink in sinks:
            task = sink_task(sink, self.names, self.names.in_pipeline(label, call), None)
            task[SINK] = True
            step["tool"].append(labelled(sink, free_label("sink", labels, self.step_names), task))

    def _chains(self, step: Map) -> None:
        """Set the retries of calls in chains: the innermost `retry` wins; that of a whole chain becomes `again`."""
        ignore = "continue" if on_error_of(step) == "ignore" else None
        for branch in step.get("case", []):
            chain = branch.get("then", branch.get("else"))
            retry = as_map(chain).get("retry", branch.get("retry"))
            default = step_retry(step) if retry is None else retry
            if retry is not None and retry.get("scope") == "chain":
                default = map_at(step) if on_error_of(step) == "retry" else None
                branch["again"] = retry_rule(branch, retry, self.names.in_rule(branch), ignore=False)
            for name, body, container in list(chain_items(branch)):
                if name == "sink":
                    container[name] = self._sink_in_place(body, default)
                elif name not in ("next", "set"):
                    self._call(chain, container, name, default, ignore)

    def _call(self, chain: Seq, item: Map, name: str, default: Map | None, ignore: str | None) -> None:
        body = item[name]
        if "retry" in body:
            body["tool"]["retry"] = body.pop("retry")
        if "poll" in body:
            body["poll"]["until"] = renamed_text(body["poll"]["until"], self.names.in_rule(body["tool"]))
        for sink in reversed(self.names.sinks_of(body["tool"])):
            task = sink_task(sink, self.names, self.names.in_pipeline(name, body["tool"]), default)
            insert_item(chain, position_of(chain, item) + 1, labelled(sink, "sink", map_at(sink, tool=task)))
        set_policy(body["tool"], self.names, default, ignore=ignore)

    def _sink_in_place(self, sink: Map, default: Map | None) -> Map:
        """A sink that stays in its place, where classic names are valid."""
        return map_at(sink, tool=sink_task(sink, self.names, {"result": "result"}, default))
