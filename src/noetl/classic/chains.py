"""The parts of a classic document: branches, chains, sinks and variables, and the checks that only they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from noetl.dsl.checks.names import DUPLICATE_LABEL, NO_EFFECT, check_unique
from noetl.dsl.outline import Document, OutlineTarget, TaskSite, next_targets
from noetl.dsl.problem import Problems
from noetl.dsl.tree import Map, key_span, text_size


class ChainItem(NamedTuple):
    """An item of a branch: a call by its name, `sink`, `set` or `next`."""

    name: str
    body: Any
    container: Map

    @property
    def is_call(self) -> bool:
        return self.name not in ("sink", "set", "next")


def chain_items(branch: Map) -> Iterator[ChainItem]:
    """The items of a branch, in either form of `then`."""
    chain = branch.get("then", branch.get("else"))
    if isinstance(chain, Map):
        yield from (ChainItem(name, chain[name], chain) for name in ("sink", "set", "next") if name in chain)
        return
    for item in chain or []:
        ((name, body),) = item.items()
        yield ChainItem(name, body, item)


class ClassicDocument(Document):
    step_actions = Document.step_actions | {"case"}
    collections = ("in", "collection")
    iterators = ("iterator", "element")
    declares_credentials = False  # an undeclared name is looked up in the credential store

    def find_tasks(self, step: Map) -> Iterator[TaskSite]:
        yield from super().find_tasks(step)
        for branch in step.get("case", []):
            items = [item for item in chain_items(branch) if item.name not in ("next", "set")]
            labels = tuple(item.name for item in items)
            visible = frozenset(labels)
            for name, body, _ in items:
                place = "sink" if name == "sink" else "chain"
                yield TaskSite(step, name, body["tool"], labels, (), place, visible)
        if "sink" in step:
            yield TaskSite(step, "sink", step["sink"]["tool"], ("sink",), (), "sink", frozenset(["sink"]))

    def all_targets(self, step: Map) -> Iterator[OutlineTarget]:
        yield from super().all_targets(step)
        for branch in step.get("case", []):
            for item in chain_items(branch):
                if item.name == "next":
                    yield from next_targets(item.container)

    def step_args(self, step: Map) -> Iterable[str]:
        args: Map = step.get("args", Map())
        return args

    def variables(self) -> Iterator[str]:
        for step in self.steps:
            yield from step.get("vars", ())
            for branch in step.get("case", []):
                for item in chain_items(branch):
                    if item.name == "set":
                        yield from item.body

    def is_parallel(self, step: Map) -> bool:
        return step.get("loop", {}).get("mode") in ("parallel", "async") or super().is_parallel(step)

    def repeated_size(self, step: Map, tasks: int) -> int:
        shared = sum(text_size(step.get(key)) for key in ("args", "retry"))
        return tasks * shared + len(step.get("case", [])) * text_size(step.get("next"))


def check(document: Document, problems: Problems) -> None:
    for step in document.steps:
        for branch in step.get("case", []):
            items = [item for item in chain_items(branch) if item.name not in ("next", "set")]
            named = ((item.name, key_span(item.container, item.name)) for item in items)
            check_unique(named, DUPLICATE_LABEL, "task", problems)
            spec = branch.get("spec", {})
            if "cache" in spec:
                message = "'cache' has no effect: a guard is evaluated once"
                problems.add(NO_EFFECT, key_span(spec, "cache"), message, "remove it")
