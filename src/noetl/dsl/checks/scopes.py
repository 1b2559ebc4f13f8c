"""Which names a template can see, by its place (S13).

A *root* is a namespace or a local that the engine provides. A *bare name* is a convenience: a key of `args`, `ctx`,
`iter` or `workload`, a task's label or a step's name, looked up in that order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from noetl.dsl.graph import Graph
from noetl.dsl.outline import Document, TaskSite, labelled_items, rules
from noetl.dsl.tree import Map

BASE = frozenset(["workload", "ctx", "steps", "execution_id"])
TOKEN = frozenset(["args", "args_by"])
PIPELINE = BASE | TOKEN | {"iter", "tasks", "_prev", "_task", "_attempt"}

ROOTS: dict[str, frozenset[str]] = {
    "workload": frozenset(["workload", "execution_id"]),
    "output": BASE,
    "admit": BASE | TOKEN | {"event"},
    "loop": BASE | TOKEN,
    "input": PIPELINE | {"keychain"},
    "skip": PIPELINE,
    "rule": PIPELINE | {"outcome"},
    "arc": BASE | TOKEN | {"event"},
}

PLACES = {
    "workload": "in `workload`",
    "output": "in `output`",
    "admit": "in an admission rule",
    "loop": "in `loop.in`",
    "input": "in a tool's input",
    "skip": "in a skip rule",
    "rule": "in a rule of a task",
    "arc": "on an arc",
}

HOME = {
    "outcome": ("it exists in the rules of a task's policy", "read `steps.NAME.result`, `.status` or `.error`"),
    "event": ("it exists on arcs and in admission rules", "look at `outcome` in a rule, or at `steps.NAME.status`"),
    "iter": ("it exists inside a pipeline", "write what others need to `ctx` with `set_ctx`"),
    "tasks": ("it exists inside a pipeline", "read `steps.NAME.result`"),
    "_prev": ("it exists inside a pipeline", "read `steps.NAME.result`"),
    "_task": ("it exists inside a pipeline", "read `event.data.task` on an arc"),
    "_attempt": ("it exists inside a pipeline", "read `event.data.attempt` on an arc"),
    "args": ("it exists once a token has arrived at a step", "read `workload`"),
    "args_by": ("it exists once a token has arrived at a step", "read `workload`"),
    "steps": ("it exists while a workflow runs", "read `workload`"),
    "ctx": ("it exists while a workflow runs", "read `workload`"),
    "keychain": ("it exists in the inputs of a tool", "pass the credential to the tool by `auth`"),
    "result": ("it exists in a classic case, `vars` or `sink`", "read `outcome.result` in a rule, or `_prev`"),
    "response": ("it exists in a classic case, `vars` or `sink`", "read `outcome` in a rule"),
    "this": ("it exists in a classic case, `vars` or `sink`", "read `outcome` in a rule"),
    "vars": ("it exists in the classic dialect", "read `ctx`"),
}
"""For a root seen in the wrong place: where it lives, and what to read instead."""

Home = tuple[str, str | None]


class Visibility(NamedTuple):
    """What templates can see in a dialect, by the place where they stand."""

    roots: Mapping[str, frozenset[str]]
    places: Mapping[str, str]
    bare: Mapping[str, frozenset[str]] = {}
    """Bare names that the engine provides."""
    homes: Mapping[str, Home] = {}
    """More names with a place of their own, like `HOME`, that a template may read elsewhere with a default."""


VISIBILITY = Visibility(ROOTS, PLACES)


class Arriving:
    """Args that a token may carry when it comes to a step: each arc adds its own to those the token already has."""

    def __init__(self, document: Document, final: str | None) -> None:
        self._bit: dict[str, int] = {}
        own: dict[tuple[str, str], int] = {}
        arcs: dict[str, list[str]] = {step["step"]: [] for step in document.steps}
        for step in document.steps:
            for target in document.targets(step):
                arcs[step["step"]].append(target.name)
                arc = (step["step"], target.name)
                own[arc] = own.get(arc, 0) | self._bits(target.args)
        graph = Graph(arcs)
        self._arriving = {final: self._bits(["summary"])} if final in arcs else {}
        for group in reversed(graph.cycles()):  # sources first
            bits = 0
            for name in group:
                bits |= self._arriving.get(name, 0)
                for source in graph.before[name]:
                    bits |= self._arriving.get(source, 0) | own[source, name]
            self._arriving.update(dict.fromkeys(group, bits))

    def _bits(self, names: Iterable[str]) -> int:
        bits = 0
        for name in names:
            bits |= self._bit.setdefault(name, 1 << len(self._bit))
        return bits

    def brings(self, step: str, arg: str) -> bool:
        return bool(self._arriving.get(step, 0) & self._bit.get(arg, 0))


class Names(NamedTuple):
    workload: frozenset[str]
    ctx: frozenset[str]
    vars: frozenset[str]
    args: frozenset[str]
    steps: frozenset[str]
    keychain: frozenset[str]
    arriving: Arriving


class LocalName(NamedTuple):
    """The bare names inside one pipeline."""

    iter: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    args: frozenset[str] = frozenset()


def names_of(document: Document) -> Names:
    root, final = document.root, document.executor_spec.get("final_step")
    args = {name for step in document.steps for target in document.all_targets(step) for name in target.args}
    then = (then for site in document.all_tasks for _, then, _ in rules(site.tree))
    return Names(
        workload=frozenset(root.get("workload", {})),
        ctx=frozenset(key for part in then for key in part.get("set_ctx", {})),
        vars=frozenset(document.variables()),
        args=frozenset(args | ({"summary"} if final else set())),
        steps=document.step_names,
        keychain=frozenset(entry["name"] for entry in root.get("keychain", []) if "name" in entry),
        arriving=Arriving(document, final),
    )


class Locals:
    """Finds what tasks can see beside the names of the whole document. What a step's tasks share is found once."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._steps: dict[int, LocalName] = {}

    def of(self, site: TaskSite) -> LocalName:
        (iteration, _, args), labels = self.of_step(site.step), site.visible
        if site.outer:
            iteration |= {outer.tree.get("iterator", "") for outer in site.outer}
            labels = labels.union(*(outer.visible for outer in site.outer))
        return LocalName(iteration, labels, args.union(own) if (own := site.tree.get("args")) else args)

    def of_step(self, step: Map) -> LocalName:
        """The names that the parts of a step outside of its tasks can see."""
        if id(step) not in self._steps:
            loop = step.get("loop", {})
            names = {"index", "parent"} | {name for key in self.document.iterators if (name := loop.get(key))}
            for site in self.document.tasks(step) if step else ():  # a task in the workbook has no step
                for _, then, _ in rules(site.tree):
                    names |= set(then.get("set_iter", {}))
            labels = frozenset(item.label for item in labelled_items(step.get("tool")))
            self._steps[id(step)] = LocalName(frozenset(names), labels, frozenset(self.document.step_args(step)))
        return self._steps[id(step)]
