"""The parts of a checked document, for checks to visit.

Nothing here judges. Parts come with the container and key that hold them, which is how the place of a part is found
(`span_in(container, key)`). `Document` knows the canonical dialect; `noetl.classic` derives its own from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from noetl.dsl.problem import Problems
from noetl.dsl.tree import Map, Seq, Span, is_template, key_span, span_in


class TaskSite(NamedTuple):
    """A task, the step it belongs to, and the labels it can see and jump to."""

    step: Map
    label: str
    tree: Map
    labels: frozenset[str]
    """The labels of its pipeline, as one set for all tasks of it."""
    outer: tuple[TaskSite, ...] = ()
    """The iterator tasks around it, innermost last."""
    place: str = "pipeline"
    """`pipeline` or `workbook`; in the classic dialect also `chain` and `sink`."""


class LabelledTask(NamedTuple):
    """A task of a `tool` with its label, and the container and key whose place is the label's."""

    label: str
    task: Map
    item: Map
    key: str

    @property
    def span(self) -> Span:
        return key_span(self.item, self.key) if self.key == self.label else span_in(self.item, self.key)


class TargetSite(NamedTuple):
    """A step's name where an arc or a `next` leads to it."""

    name: str
    container: Map | Seq
    key: Any

    @property
    def args(self) -> Iterable[str]:
        return self.container.get("args", ()) if isinstance(self.container, dict) and self.key == "step" else ()


COLLECTION_KEYS, ITERATOR_KEYS = ("in", "collection"), ("iterator", "element")
"""Keys of a loop that hold its collection and the name of its item, the classic ones last."""


class Unused(NamedTuple):
    """A key without effect at its place."""

    container: Map
    key: str
    reason: str
    hint: str = "remove it"


class Document:
    step_actions: ClassVar = frozenset(["tool", "next"])
    """Keys of which a step needs one to do anything."""
    declares_credentials: ClassVar = True
    """Whether `auth` can only name entries of the keychain."""

    def __init__(self, root: Map) -> None:
        self.root = root
        self.executor_spec: Map = root.get("executor", {}).get("spec", Map())
        self._tasks: dict[int, list[TaskSite]] = {}
        self._targets: dict[int, list[TargetSite]] = {}

    def listens(self, step: Map) -> bool:
        """Whether the step evaluates events, such as those of its timers."""
        return False

    def unused(self) -> Iterator[Unused]:
        """Keys of the dialect that have no effect at their place."""
        yield from ()

    @cached_property
    def steps(self) -> list[Map]:
        return [step for step in self.root.get("workflow", []) if "step" in step]

    @cached_property
    def step_names(self) -> frozenset[str]:
        return frozenset(step["step"] for step in self.steps)

    def tasks(self, step: Map) -> list[TaskSite]:
        if id(step) not in self._tasks:
            self._tasks[id(step)] = list(self.find_tasks(step))
        return self._tasks[id(step)]

    def find_tasks(self, step: Map) -> Iterator[TaskSite]:
        if "tool" in step:
            yield from pipeline(step, step["tool"])

    @cached_property
    def all_tasks(self) -> list[TaskSite]:
        return [site for step in self.steps for site in self.tasks(step)]

    @cached_property
    def workbook(self) -> list[tuple[str, TaskSite]]:
        """The tasks of the workbook, each with the name of the entry it belongs to."""
        return [
            (name, site if site.outer else site._replace(label=name))
            for name, task in workbook_tasks(self.root.get("workbook")).items()
            if isinstance(task, dict) and "kind" in task
            for site in pipeline(Map(), task, (), "workbook")
        ]

    def pipelines(self, step: Map) -> Iterator[Map | Seq]:
        if "tool" in step:
            yield step["tool"]
        yield from (site.tree["tool"] for site in self.tasks(step) if is_iterator(site.tree))

    def loops(self, step: Map) -> list[Map]:
        own = [step["loop"]] if "loop" in step else []
        return own + [site.tree for site in self.tasks(step) if site.tree.get("kind") == "iterator"]

    @cached_property
    def every_task(self) -> list[TaskSite]:
        """The tasks of the steps and of the workbook."""
        return [*self.all_tasks, *(site for _, site in self.workbook)]

    def layers(self, step: Map) -> tuple[Map, Map]:
        return step.get("spec", Map()), step.get("loop", {}).get("spec", Map())

    @property
    def all_layers(self) -> list[Map]:
        """The options of the executor, and the layers of every step."""
        return [self.executor_spec, *(layer for step in self.steps for layer in self.layers(step))]

    def arg_names(self) -> Iterator[str]:
        """The names of all args that some task, step or arc has."""
        for step in self.steps:
            yield from self.step_args(step)
            yield from (name for target in self.all_targets(step) for name in target.args)
        for site in self.every_task:
            yield from site.tree.get("args", ())

    def step_args(self, step: Map) -> Iterable[str]:
        return ()

    def variables(self) -> Iterable[str]:
        return ()

    def targets(self, step: Map) -> Iterator[TargetSite]:
        """Every step that this one leads to; computed targets are left out."""
        for target in self.all_targets(step):
            if isinstance(target.name, str) and not is_template(target.name):
                yield target

    def all_targets(self, step: Map) -> list[TargetSite]:
        """Everything that this step leads to, computed targets with the template that gives their name."""
        if id(step) not in self._targets:
            self._targets[id(step)] = list(self.find_targets(step))
        return self._targets[id(step)]

    def find_targets(self, step: Map) -> Iterator[TargetSite]:
        if "next" in step:
            yield from next_targets(step)

    def is_parallel(self, step: Map) -> bool:
        loop = step.get("loop", {})
        return loop.get("mode") in ("parallel", "async") or loop.get("spec", {}).get("mode") == "parallel"

    def check(self, problems: Problems) -> None:
        """Report problems of parts that only this dialect has."""

    def repeated_size(self, step: Map, tasks: int) -> int:
        """About how many characters the step repeats when it is built with that many tasks."""
        return 0


def labelled_items(tool: Any) -> Iterator[LabelledTask]:
    """The tasks of a `tool` with their labels; a task without one is `task_N`, N its place from 1."""
    for place, item in enumerate([tool] if isinstance(tool, Map) else tool or (), start=1):
        if not isinstance(item, Map) or not item:
            continue
        if "kind" not in item:
            ((label, task),) = item.items()
            yield LabelledTask(label, task, item, label)
        elif "name" in item and item["kind"] != "workbook":
            yield LabelledTask(item["name"], item, item, "name")
        else:
            yield LabelledTask(f"task_{place}", item, item, "kind")


def pipeline(step: Map, tool: Any, outer: tuple[TaskSite, ...] = (), place: str = "pipeline") -> Iterator[TaskSite]:
    items = list(labelled_items(tool))
    refused = [item for item in getattr(tool, "lost", ()) if isinstance(item, dict)]
    names = [item.get("name") if "kind" in item else next(iter(item), None) for item in refused]
    labels = frozenset([*(item.label for item in items), *(name for name in names if isinstance(name, str))])
    for label, task, *_ in items:
        site = TaskSite(step, label, task, labels, outer, place)
        yield site
        if is_iterator(task):
            yield from pipeline(step, task["tool"], (*outer, site), place)


def is_iterator(task: Map) -> bool:
    return task.get("kind") == "iterator" and "tool" in task


def callee(task: Map) -> str | None:
    name = task.get("name") if task.get("kind") == "workbook" else None
    return name if isinstance(name, str) else None


def workbook_tasks(workbook: Any) -> dict[str, Map]:
    if isinstance(workbook, list):
        return {entry["name"]: entry["tool"] for entry in workbook if "name" in entry and "tool" in entry}
    if isinstance(workbook, dict):
        tasks = workbook.get("tasks")
        return tasks if isinstance(tasks, dict) and "kind" not in tasks else workbook
    return {}


def rules(task: Map) -> Iterator[tuple[Map, Map, bool]]:
    for rule in task.get("spec", {}).get("policy", {}).get("rules", []):
        yield rule, rule.get("else", rule)["then"], "else" in rule


def next_targets(container: Map) -> Iterator[TargetSite]:
    following = container["next"]
    if isinstance(following, str):
        yield TargetSite(following, container, "next")
        return
    if isinstance(following, dict):
        following = following.get("arcs", following.get("to", []))
    for i, item in enumerate(following):
        if isinstance(item, str):
            yield TargetSite(item, following, i)
        elif "step" in item:
            yield TargetSite(item["step"], item, "step")
