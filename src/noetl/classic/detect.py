"""Distinguishes classic documents from canonical ones, before shapes are checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from noetl.classic.nodes import as_list, as_map
from noetl.dsl.tree import Map

STEP_KEYS = ("args", "retry", "vars", "case", "sink")
LOOP_KEYS = ("mode", "collection", "element")
CASE_SPEC = ("case_mode", "eval_mode", "branch_order", "next_policy", "on_error")


def is_classic(root: Map) -> bool:
    """True if the document uses classic constructs and none that only the canonical dialect has."""
    for step in _maps(root.get("workflow")):
        tool = step.get("tool")
        labelled = any(len(task) == 1 and "kind" not in task for task in _maps(tool))
        if labelled or "arcs" in as_map(step.get("next")):
            return False
        chained = [as_map(body.get("tool")) for body in chain_calls(step.get("case"))]
        if any("policy" in as_map(part.get("spec")) for part in (step, *tasks_of(tool), *chained)):
            return False
    return next(_constructs(root), None) is not None


def first_construct(root: Map) -> tuple[Map, str]:
    return next(_constructs(root))


def tasks_of(tool: Any) -> list[Map]:
    if isinstance(tool, Map):
        return [tool]
    items = _maps(tool)
    return [item if "kind" in item or len(item) != 1 else as_map(next(iter(item.values()))) for item in items]


def chain_calls(case: Any) -> Iterator[Map]:
    for branch in _maps(case):
        for item in _maps(branch.get("then", branch.get("else"))):
            yield from (as_map(body) for name, body in item.items() if name not in ("sink", "set", "next"))


def _maps(node: Any) -> list[Map]:
    return [item for item in as_list(node) if isinstance(item, Map)]


def _constructs(root: Map) -> Iterator[tuple[Map, str]]:
    for step in _maps(root.get("workflow")):
        yield from ((step, key) for key in step if key in STEP_KEYS)
        if isinstance(step.get("next"), str | list):
            yield step, "next"
        loop, spec = as_map(step.get("loop")), as_map(step.get("spec"))
        for part, keys in ((loop, LOOP_KEYS), (as_map(loop.get("spec")), ("batch_size",)), (spec, CASE_SPEC)):
            yield from ((part, key) for key in part if key in keys)
    for entry in _maps(root.get("workbook")):
        if "sink" in entry:
            yield entry, "sink"
