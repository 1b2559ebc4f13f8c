"""The parts of a document that may be of another generation, and the reports of the rewrites."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from noetl.classic.detect import is_classic
from noetl.classic.nodes import as_list, as_map
from noetl.dsl.document_parts import workbook_tasks
from noetl.dsl.problem import Problems
from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map, Seq, Span, key_span, span_in
from noetl.model.kind import Kind


class OtherTask(NamedTuple):
    label: str
    tree: Map
    kind: Kind | None
    """The kind; for a call of the workbook that of the entry."""


class Remark(NamedTuple):
    container: Map | Seq
    key: Any
    message: str
    hint: str
    text: str = ""
    """The scalar as it was read, where `offset` is the place in it."""
    offset: int | None = None

    def place(self, problems: Problems) -> Span | int:
        if self.offset is not None:
            return problems.text.offset_in(span_in(self.container, self.key), self.text, self.offset)
        return key_span(self.container, self.key) if isinstance(self.container, Map) else span_in(*self[:2])


class OtherDocument:
    def __init__(self, root: Map, kinds: KindSource) -> None:
        self.root, self.kinds = root, kinds
        self.leftovers: list[Remark] = []
        """Constructs without a spelling in noetl.io/v2."""
        self.notes: list[Remark] = []
        """Rewrites to review."""
        self.is_classic = is_classic(root)
        self.declared = frozenset(self._declared())
        """Names that the document itself gives a meaning: names that are reserved elsewhere may be among them."""
        self.labels = {step["step"]: [task.label for task in self.outer_tasks(step)] for step in self.steps}
        """The labels of a step's tasks as they were read."""

    @property
    def steps(self) -> list[Map]:
        steps = as_list(self.root.get("workflow"))
        return [step for step in steps if isinstance(step, Map) and isinstance(step.get("step"), str)]

    @property
    def step_names(self) -> set[str]:
        return {step["step"] for step in self.steps}

    def tasks(self, step: Map) -> list[OtherTask]:
        return list(self._tasks(step.get("tool")))

    def outer_tasks(self, step: Map) -> list[OtherTask]:
        """The tasks of a step without those inside of an iterator."""
        return list(self._tasks(step.get("tool"), nested=False))

    @property
    def all_tasks(self) -> list[OtherTask]:
        calls = [task for step in self.steps for task in self.tasks(step)]
        entries = self._entries()
        return calls + [task for entry in entries.values() for task in self._tasks(entry)]

    def kind_of(self, task: Map) -> Kind | None:
        name = task.get("kind")
        if name == "workbook" and isinstance(task.get("name"), str):
            name = as_map(self._entries().get(task["name"])).get("kind")
        return self.kinds.get(name) if isinstance(name, str) else None

    def refuse(self, container: Map | Seq, key: Any, message: str, hint: str) -> None:
        self.leftovers.append(Remark(container, key, message, hint))

    def refuse_in(self, container: Map | Seq, key: Any, offset: int, message: str, hint: str) -> None:
        self.leftovers.append(Remark(container, key, message, hint, container[key], offset))

    def note(self, container: Map | Seq, key: Any, message: str, hint: str) -> None:
        self.notes.append(Remark(container, key, message, hint))

    def _entries(self) -> dict[str, Map]:
        workbook = self.root.get("workbook")
        entries = [entry for entry in as_list(workbook) if isinstance(as_map(entry).get("name"), str)]
        tasks = workbook_tasks(entries if isinstance(workbook, Seq) else workbook)
        return {name: task for name, task in tasks.items() if isinstance(name, str) and isinstance(task, Map)}

    def _tasks(self, tool: Any, *, nested: bool = True) -> Iterator[OtherTask]:
        for place, item in enumerate([tool] if isinstance(tool, Map) else as_list(tool), start=1):
            label, task = f"task_{place}", item
            if isinstance(item, Map) and "kind" not in item and len(item) == 1:
                ((label, task),) = item.items()
            elif isinstance(item, Map) and item.get("kind") != "workbook":
                label = item.get("name", label)
            if isinstance(task, Map):
                yield OtherTask(str(label), task, self.kind_of(task))
                if nested and task.get("kind") == "iterator":
                    yield from self._tasks(task.get("tool"))

    def _declared(self) -> Iterator[str]:
        yield from as_map(self.root.get("workload"))
        for step in self.steps:
            yield step["step"]
            loops = [as_map(step.get("loop")), *(task.tree for task in self.tasks(step))]
            yield from (
                loop[key] for loop in loops for key in ("iterator", "element") if isinstance(loop.get(key), str)
            )
            for holder in (step, *loops, *map(as_map, as_list(as_map(step.get("next")).get("arcs")))):
                for args in (as_map(holder.get("args")), as_map(holder.get("input"))):  # `x: "{{ x }}"` passes x on
                    yield from (name for name, value in args.items() if not re.search(rf"\b{name}\b", str(value)))
        for task in self.all_tasks:
            yield task.label
            for then in thens(task.tree):
                for key in ("set_ctx", "set_iter"):
                    yield from as_map(then.get(key))


def rules(task: Map) -> list[Map]:
    policy = as_map(as_map(task.get("spec")).get("policy"))
    return [rule for rule in as_list(policy.get("rules")) if isinstance(rule, Map)]


def thens(task: Map) -> Iterator[Map]:
    for rule in rules(task):
        then = as_map(rule.get("else")).get("then") if "else" in rule else rule.get("then")
        if isinstance(then, Map):
            yield then
