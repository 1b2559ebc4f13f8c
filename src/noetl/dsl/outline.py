"""The parts of a checked document, of either dialect, for checks to walk over.

Nothing here judges. Each function yields parts together with the container and key that hold them, which is how a
part's place is found (`span_in(container, key)`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from noetl.dsl.shape import is_template
from noetl.dsl.tree import Span, key_span, span_in


class TaskSite(NamedTuple):
    """A task, the step it belongs to, and the labels it can see and jump to."""

    step: Any
    label: str
    tree: Any
    labels: tuple[str, ...]
    outer: tuple[TaskSite, ...] = ()
    """The iterator tasks around it, innermost last."""
    place: str = "pipeline"
    """`pipeline`, `chain` (of a classic case), `sink`, or `workbook`."""
    visible: frozenset[str] = frozenset()
    """The labels of its pipeline, as one set for all tasks of it."""


class Target(NamedTuple):
    """A step's name where an arc or a `next` leads to it."""

    name: str
    container: Any
    key: Any


def steps(root: Any) -> list[Any]:
    """The steps that have a name."""
    return [step for step in root.get("workflow", []) if "step" in step]


def labelled_items(tool: Any) -> Iterator[tuple[str, Any, Any, str]]:
    """Label, task, and the container and key whose place is the label's."""
    items = [tool] if isinstance(tool, dict) else tool
    for place, item in enumerate(items, start=1):
        if not isinstance(item, dict) or not item:
            continue
        if "kind" not in item:
            ((label, task),) = item.items()
            yield label, task, item, label
        elif "name" in item and item["kind"] != "workbook":
            yield item["name"], item, item, "name"
        else:
            yield f"task_{place}", item, item, "kind"


def label_span(label: str, item: Any, key: str) -> Span:
    """Where the label of one of the `labelled_items` stands."""
    return key_span(item, key) if key == label else span_in(item, key)


def _lost_labels(tool: Any) -> Iterator[str]:
    """Labels of tasks that were refused: still names that others may refer to."""
    for item in getattr(tool, "lost", ()):
        if isinstance(item, dict):
            label = item.get("name") if "kind" in item else next(iter(item), None)
            if isinstance(label, str):
                yield label


def pipeline(step: Any, tool: Any, outer: tuple[TaskSite, ...] = (), place: str = "pipeline") -> Iterator[TaskSite]:
    """The tasks of a `tool`, and those inside iterators."""
    items = list(labelled_items(tool))
    labels = (*(label for label, *_ in items), *_lost_labels(tool))
    visible = frozenset(labels)
    for label, task, *_ in items:
        site = TaskSite(step, label, task, labels, outer, place, visible)
        yield site
        if task.get("kind") == "iterator" and "tool" in task:
            yield from pipeline(step, task["tool"], (*outer, site), place)


def tasks(step: Any) -> Iterator[TaskSite]:
    """Every task of a step: its pipeline, the chains of its case, its sink."""
    if "tool" in step:
        yield from pipeline(step, step["tool"])
    for branch in step.get("case", []):
        items = list(chain_items(branch))
        labels = tuple(name for name, *_ in items if name not in ("next", "set"))
        visible = frozenset(labels)
        for name, body, *_ in items:
            if name == "sink":
                yield TaskSite(step, name, body["tool"], labels, (), "sink", visible)
            elif name not in ("next", "set"):
                yield TaskSite(step, name, body["tool"], labels, (), "chain", visible)
    if "sink" in step:
        yield TaskSite(step, "sink", step["sink"]["tool"], ("sink",), (), "sink", frozenset(["sink"]))


def workbook(root: Any) -> Iterator[tuple[str, TaskSite]]:
    """The named tasks of the workbook."""
    from noetl.dsl.canonical import workbook_tasks

    for name, task in workbook_tasks(root.get("workbook")).items():
        if isinstance(task, dict) and "kind" in task:
            for site in pipeline({}, task, (), "workbook"):
                yield name, site


def chain_items(branch: Any) -> Iterator[tuple[str, Any, Any]]:
    """Name, body and container of each item of a branch, in either form of `then`."""
    chain = branch.get("then", branch.get("else"))
    if isinstance(chain, dict):
        yield from ((name, chain[name], chain) for name in ("sink", "set", "next") if name in chain)
        return
    for item in chain or []:
        ((name, body),) = item.items()
        yield name, body, item


def rules(task: Any) -> Iterator[tuple[Any, Any, bool]]:
    """Each rule of a task's policy, its `then`, and whether it is `else`."""
    for rule in task.get("spec", {}).get("policy", {}).get("rules", []):
        body = rule.get("else", rule)
        yield rule, body["then"], "else" in rule


def targets(step: Any) -> Iterator[Target]:
    """Every step that this one leads to; computed targets are not known and left out."""
    for target in all_targets(step):
        if isinstance(target.name, str) and not is_template(target.name):
            yield target


def all_targets(step: Any) -> Iterator[Target]:
    """Everything that this step leads to, computed targets with the template that gives their name."""
    found = [_next_targets(step, "next")] if "next" in step else []
    for branch in step.get("case", []):
        found += [_next_targets(container, "next") for name, _, container in chain_items(branch) if name == "next"]
    for some in found:
        yield from some


def _next_targets(container: Any, key: str) -> Iterator[Target]:
    following = container[key]
    if isinstance(following, str):
        yield Target(following, container, key)
        return
    if isinstance(following, dict):
        following = following.get("arcs", following.get("to", []))
    for i, item in enumerate(following):
        if isinstance(item, str):
            yield Target(item, following, i)
        elif "step" in item:
            yield Target(item["step"], item, "step")


def is_parallel(step: Any) -> bool:
    """True if the step's items run side by side."""
    loop = step.get("loop", {})
    return loop.get("mode") in ("parallel", "async") or loop.get("spec", {}).get("mode") == "parallel"
