"""What a playbook becomes when everything that it shares is written out.

In the model each task stands for itself: calls of the workbook are resolved, defaults of its kind and the args of its
step are laid under its own. A few lines can so become gigabytes, which has to be seen before it is done.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from noetl.dsl import outline
from noetl.dsl.canonical import INHERITED, workbook_tasks
from noetl.dsl.graph import Graph
from noetl.dsl.problem import Problems
from noetl.dsl.reader import TOO_LARGE
from noetl.dsl.tree import span_in

MAX_WRITTEN_OUT = 8 << 20


class _Written(NamedTuple):
    """How much text a part becomes, and how many tasks of each kind."""

    size: int
    kinds: Counter[str]


def check(root: Any, problems: Problems) -> None:
    """Refuse a playbook that grows beyond a limit. Its names are sound: every call leads somewhere, and none back."""
    called = _workbook(root)
    outer = _Layer(root.get("executor", {}).get("spec", {}))
    total = 0
    for step in outline.steps(root):
        sites = list(outline.tasks(step))
        layers = [outer, _Layer(step.get("spec", {})), _Layer(step.get("loop", {}).get("spec", {}))]
        written = _written([site.tree for site in sites], called)
        tasks = written.kinds.total()
        total += size(step) + written.size + tasks * sum(size(step.get(key)) for key in ("args", "retry"))
        total += len(step.get("case", [])) * size(step.get("next"))
        total += sum(layer.size(kind) * count for layer in layers for kind, count in written.kinds.items())
        if total > MAX_WRITTEN_OUT:
            message = f"with all defaults and calls written out, the playbook has more than {MAX_WRITTEN_OUT >> 20} MiB"
            hint = "share less: call large workbook tasks, and give large defaults, in fewer places"
            problems.add(TOO_LARGE, span_in(step, "step"), message, hint)
            return


class _Layer:
    """A `spec` that gives defaults to the tasks inside it."""

    def __init__(self, spec: Any) -> None:
        self.spec = spec
        self.shared = sum(size(spec.get(key)) for key in INHERITED)
        self.by_kind: dict[str, int] = {}

    def size(self, kind: str) -> int:
        if kind not in self.by_kind:
            self.by_kind[kind] = self.shared + size(self.spec.get(kind))
        return self.by_kind[kind]


def _workbook(root: Any) -> dict[str, _Written]:
    """Each task of the workbook, written out; those that it calls come first."""
    trees: dict[str, list[Any]] = {name: [] for name in workbook_tasks(root.get("workbook"))}
    for name, site in outline.workbook(root):
        trees[name].append(site.tree)
    found: dict[str, _Written] = {}
    for (name,) in Graph({name: filter(None, map(_callee, inside)) for name, inside in trees.items()}).circles():
        found[name] = _written(trees[name], found)
    return found


def _written(trees: list[Any], called: dict[str, _Written]) -> _Written:
    total, kinds = 0, Counter[str]()
    for tree in trees:
        callee = called.get(_callee(tree) or "")
        total += size({key: value for key, value in tree.items() if key != "tool"})
        kinds[tree["kind"]] += 1
        if callee is not None:
            total += callee.size
            kinds.update(callee.kinds)
    return _Written(total, kinds)


def _callee(tree: Any) -> str | None:
    name = tree.get("name") if tree.get("kind") == "workbook" else None
    return name if isinstance(name, str) else None


def size(node: Any) -> int:
    """About how many characters a node takes as text."""
    if isinstance(node, dict):
        return 2 + sum(len(key) + 3 + size(value) for key, value in node.items())
    if isinstance(node, list):
        return 2 + sum(1 + size(item) for item in node)
    return len(node) + 2 if isinstance(node, str) else 0 if node is None else 8
