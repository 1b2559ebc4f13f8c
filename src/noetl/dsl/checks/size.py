"""The size of a playbook with all shared parts written out.

In the model each task is complete: calls of the workbook are resolved, and defaults of its kind and the args of its
step are merged into its own. A few lines can become gigabytes, so the size is computed first.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from noetl.dsl.canonical import INHERITED
from noetl.dsl.document_parts import Document, callee, workbook_tasks
from noetl.dsl.graph import DirectedGraph
from noetl.dsl.problem import Problems
from noetl.dsl.reader import TOO_LARGE
from noetl.dsl.tree import Map, span_in, text_size

MAX_WRITTEN_OUT = 8 << 20


class _Written(NamedTuple):
    size: int
    kinds: Counter[str]


def check(document: Document, problems: Problems) -> None:
    """Refuse a playbook that grows beyond a limit. Its names are valid: every call leads somewhere, and none back."""
    trees: dict[str, list[Map]] = {name: [] for name in workbook_tasks(document.root.get("workbook"))}
    for name, site in document.workbook:
        trees[name].append(site.tree)
    calls = {name: [called for tree in inside if (called := callee(tree))] for name, inside in trees.items()}
    workbook: dict[str, _Written] = {}
    for (name,) in DirectedGraph(calls).cycles():  # tasks that a task calls come first
        workbook[name] = _written(trees[name], workbook)
    defaults: dict[tuple[int, str], int] = {}  # by the identity of a spec: all steps share that of the executor
    total = 0
    for step in document.steps:
        written = _written([site.tree for site in document.tasks(step)], workbook)
        total += text_size(step) + written.size + document.repeated_size(step, written.kinds.total())
        for spec in (document.executor_spec, *document.layers(step)):
            for kind, count in written.kinds.items():
                if (id(spec), kind) not in defaults:
                    defaults[id(spec), kind] = sum(text_size(spec.get(key)) for key in (*INHERITED, kind))
                total += defaults[id(spec), kind] * count
        if total > MAX_WRITTEN_OUT:
            message = f"the playbook expands to more than {MAX_WRITTEN_OUT >> 20} MiB of calls and defaults"
            hint = "call large workbook tasks, and set large defaults, in fewer places"
            problems.add(TOO_LARGE, span_in(step, "step"), message, hint)
            return


def _written(trees: list[Map], called: dict[str, _Written]) -> _Written:
    total, kinds = 0, Counter[str]()
    for tree in trees:
        total += text_size({key: value for key, value in tree.items() if key != "tool"})
        kinds[tree["kind"]] += 1
        if (name := callee(tree)) in called:
            total += called[name].size
            kinds.update(called[name].kinds)
    return _Written(total, kinds)
