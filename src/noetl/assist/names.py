"""The names of a document that other parts of it can refer to. The document may be half written."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from noetl.classic.nodes import as_list, as_map
from noetl.dsl.document_parts import ITERATOR_KEYS
from noetl.dsl.payload import properties_of
from noetl.dsl.reader import MAX_DEPTH
from noetl.dsl.tree import Map, Seq


class Names(msgspec.Struct, frozen=True):
    """Names that a playbook defines: its steps, the labels of each step's tasks, and the keys of `ctx` it writes."""

    steps: list[str]
    labels: dict[str, list[str]]
    ctx: list[str]


class LooseTask(NamedTuple):
    """A task, the list that it belongs to, and the iterator tasks around it."""

    label: str
    tree: Map
    outer: tuple[LooseTask, ...] = ()

    @property
    def kind(self) -> str:
        kind = self.tree.get("kind")
        return kind if isinstance(kind, str) else ""

    @property
    def thens(self) -> Iterator[Map]:
        policy = as_map(as_map(self.tree.get("spec")).get("policy"))
        for rule in map(as_map, as_list(policy.get("rules"))):
            yield as_map(as_map(rule.get("else", rule)).get("then"))


def tasks_of(tool: Any, outer: tuple[LooseTask, ...] = ()) -> Iterator[LooseTask]:
    """The tasks of a `tool`, those inside iterators after their iterator."""
    for number, item in enumerate([tool] if isinstance(tool, Map) else as_list(tool), start=1):
        if not isinstance(item, Map) or not item:
            continue
        label: Any = item.get("name", f"task_{number}")
        tree = item
        if "kind" not in item:
            label = next(iter(item))
            tree = as_map(item[label])
        task = LooseTask(str(label), tree, outer)
        yield task
        if len(outer) < MAX_DEPTH:
            yield from tasks_of(tree.get("tool"), (*outer, task))


class DocumentNames:
    def __init__(self, root: Map) -> None:
        self.root = root
        self.workload = as_map(root.get("workload"))

    @cached_property
    def steps(self) -> dict[str, Map]:
        steps = [step for step in map(as_map, as_list(self.root.get("workflow"))) if isinstance(step.get("step"), str)]
        return {step["step"]: step for step in steps}

    @cached_property
    def tasks(self) -> dict[str, list[LooseTask]]:
        """The tasks of each step."""
        return {name: list(tasks_of(step.get("tool"))) for name, step in self.steps.items()}

    @cached_property
    def ctx(self) -> dict[str, None]:
        return self._written("set_ctx")

    @cached_property
    def variables(self) -> dict[str, None]:
        return dict.fromkeys(key for step in self.steps.values() for key in as_map(step.get("vars")))

    @cached_property
    def args(self) -> dict[str, None]:
        args: dict[str, None] = {}
        for step in self.steps.values():
            following = as_map(step.get("next"))
            for arc in as_list(following.get("arcs", following.get("to"))):
                args |= dict.fromkeys(as_map(as_map(arc).get("args")))
        return args

    @cached_property
    def keychain(self) -> list[str]:
        entries = map(as_map, as_list(self.root.get("keychain")))
        return [entry["name"] for entry in entries if isinstance(entry.get("name"), str)]

    @cached_property
    def workbook(self) -> list[str]:
        workbook = self.root.get("workbook")
        if isinstance(workbook, Seq):
            return [str(entry["name"]) for entry in map(as_map, workbook) if "name" in entry]
        tasks = as_map(workbook).get("tasks")
        return list(tasks if isinstance(tasks, Map) else as_map(workbook))

    @property
    def inputs(self) -> list[str]:
        spec = as_map(as_map(self.root.get("executor")).get("spec"))
        return list(dict.fromkeys([*self.workload, *sorted(properties_of(as_map(spec.get("schema")).get("workload")))]))

    def iteration(self, step: Map, outer: tuple[LooseTask, ...] = ()) -> list[str]:
        """The keys of `iter` inside the tasks of a step."""
        loops = [as_map(step.get("loop")), *(task.tree for task in outer)]
        names = [loop[key] for loop in loops for key in ITERATOR_KEYS if isinstance(loop.get(key), str)]
        written = (then for task in tasks_of(step.get("tool")) for then in task.thens)
        return list(dict.fromkeys([*names, *(key for then in written for key in as_map(then.get("set_iter")))]))

    def public(self) -> Names:
        labels = {name: list(dict.fromkeys(task.label for task in tasks)) for name, tasks in self.tasks.items()}
        return Names(list(self.steps), labels, list(self.ctx))

    def _written(self, key: str) -> dict[str, None]:
        thens = (then for tasks in self.tasks.values() for task in tasks for then in task.thens)
        return dict.fromkeys(name for then in thens for name in as_map(then.get(key)))
