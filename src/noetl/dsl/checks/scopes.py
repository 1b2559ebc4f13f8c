"""Which names a template can see, by the place where it stands (S13).

A *root* is a namespace or a local that the engine provides. A *bare name* is a convenience: a key of `args`, `ctx`,
`iter` or `workload`, a task's label or a step's name, looked up in that order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from noetl.dsl import outline
from noetl.dsl.graph import Graph
from noetl.dsl.outline import TaskSite

BASE = frozenset(["workload", "ctx", "steps", "execution_id"])
TOKEN = frozenset(["args", "args_by"])
PIPELINE = BASE | TOKEN | {"iter", "tasks", "_prev", "_task", "_attempt"}
CLASSIC_RESULT = frozenset(["result", "response", "this"])

ROOTS: dict[str, frozenset[str]] = {
    "workload": frozenset(["workload", "execution_id"]),
    "output": BASE,
    "admit": BASE | TOKEN | {"event"},
    "loop": BASE | TOKEN,
    "input": PIPELINE | {"keychain"},
    "skip": PIPELINE,
    "rule": PIPELINE | {"outcome"},
    "arc": BASE | TOKEN | {"event"},
    "case": BASE | TOKEN | CLASSIC_RESULT | {"event"},
    "chain": PIPELINE | CLASSIC_RESULT | {"event", "keychain"},
    "chain_skip": PIPELINE | CLASSIC_RESULT | {"event"},
    "vars": BASE | TOKEN | CLASSIC_RESULT | {"event", "iter"},
    "retry": PIPELINE
    | CLASSIC_RESULT
    | {"outcome", "attempt", "max_attempts", "status_code", "error", "success", "data"},
}
"""Roots by place. `vars` is one everywhere in the classic dialect but in `workload`."""

PLACES = {
    "workload": "in `workload`",
    "output": "in `output`",
    "admit": "in an admission rule",
    "loop": "in `loop.in`",
    "input": "in a tool's input",
    "skip": "in a skip rule",
    "rule": "in a rule of a task",
    "arc": "on an arc",
    "case": "in a case's condition",
    "chain": "in a chain",
    "chain_skip": "in a sink's condition",
    "vars": "in `vars`",
    "retry": "in a retry's condition",
}
"""Places in words."""

HOME = {
    "outcome": (
        "it exists in the rules of a task's policy",
        "read `steps.NAME.result`, `.status` or `.error`",
    ),
    "event": (
        "it exists on arcs and in admission rules",
        "look at `outcome` in a rule, or at `steps.NAME.status`",
    ),
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
    "result": (
        "it exists in a classic case, `vars` or `sink`",
        "read `outcome.result` in a rule, or `_prev`",
    ),
    "response": ("it exists in a classic case, `vars` or `sink`", "read `outcome` in a rule"),
    "this": ("it exists in a classic case, `vars` or `sink`", "read `outcome` in a rule"),
    "vars": ("it exists in the classic dialect", "read `ctx`"),
}
"""For a root seen in the wrong place: where it lives, and what to read instead."""

RETRY_NAMES = frozenset(["attempt", "max_attempts", "status_code", "success"])


class Arriving:
    """Args that a token may carry when it comes to a step: each arc adds its own to those the token already has."""

    def __init__(self, root: Any, final: str | None) -> None:
        self._bit: dict[str, int] = {}
        own: dict[tuple[str, str], int] = {}
        arcs: dict[str, list[str]] = {step["step"]: [] for step in outline.steps(root)}
        for step in outline.steps(root):
            for target in outline.targets(step):
                arcs[step["step"]].append(target.name)
                given = target.container.get("args", {}) if target.key == "step" else {}
                arc = (step["step"], target.name)
                own[arc] = own.get(arc, 0) | self._bits(given)
        graph = Graph(arcs)
        self._found = {final: self._bits(["summary"])} if final in arcs else {}
        for group in reversed(graph.circles()):  # sources first
            bits = 0
            for name in group:
                bits |= self._found.get(name, 0)
                for source in graph.before[name]:
                    bits |= self._found.get(source, 0) | own[source, name]
            self._found.update(dict.fromkeys(group, bits))

    def _bits(self, names: Iterable[str]) -> int:
        bits = 0
        for name in names:
            bits |= self._bit.setdefault(name, 1 << len(self._bit))
        return bits

    def brings(self, step: str, arg: str) -> bool:
        return bool(self._found.get(step, 0) & self._bit.get(arg, 0))


class Names(NamedTuple):
    """The bare names of a document."""

    workload: frozenset[str]
    ctx: frozenset[str]
    vars: frozenset[str]
    args: frozenset[str]
    steps: frozenset[str]
    keychain: frozenset[str]
    arriving: Arriving

    def everywhere(self) -> frozenset[str]:
        return self.workload | self.ctx | self.args | self.steps


class Local(NamedTuple):
    """The bare names inside one pipeline."""

    iter: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    args: frozenset[str] = frozenset()


def names_of(root: Any) -> Names:
    """Everything that some part of the document provides under a name."""
    ctx: set[str] = set()
    variables: set[str] = set()
    args: set[str] = set()
    for step in outline.steps(root):
        variables |= set(step.get("vars", {}))
        for site in outline.tasks(step):
            for _, then, _ in outline.rules(site.tree):
                ctx |= set(then.get("set_ctx", {}))
        for branch in step.get("case", []):
            for name, body, _ in outline.chain_items(branch):
                if name == "set":
                    variables |= set(body)
        for target in outline.all_targets(step):
            if isinstance(target.container, dict) and target.key == "step":
                args |= set(target.container.get("args", {}))
    final = root.get("executor", {}).get("spec", {}).get("final_step")
    return Names(
        workload=frozenset(root.get("workload", {})),
        ctx=frozenset(ctx),
        vars=frozenset(variables),
        args=frozenset(args | ({"summary"} if final else set())),
        steps=frozenset(step["step"] for step in outline.steps(root)),
        keychain=frozenset(entry["name"] for entry in root.get("keychain", []) if "name" in entry),
        arriving=Arriving(root, final),
    )


class Locals:
    """Finds what tasks can see beside the names of the whole document. What a step's tasks share is found once."""

    def __init__(self) -> None:
        self._iter: dict[int, frozenset[str]] = {}
        self._args: dict[int, frozenset[str]] = {}
        self._steps: dict[int, Local] = {}

    def of(self, site: TaskSite) -> Local:
        """The names that one task can see."""
        found, labels = self._of_step(site.step), site.visible
        if site.outer:
            found |= {outer.tree.get("iterator", "") for outer in site.outer}
            labels = labels.union(*(outer.visible for outer in site.outer))
        args = self._args_of(site.step)
        return Local(found, labels, args.union(own) if (own := site.tree.get("args")) else args)

    def _args_of(self, step: Any) -> frozenset[str]:
        if "args" not in step:
            return frozenset()
        if id(step) not in self._args:
            self._args[id(step)] = frozenset(step["args"])
        return self._args[id(step)]

    def of_step(self, step: Any) -> Local:
        """What a step's own classic parts can see: the names of its pipeline."""
        if id(step) not in self._steps:
            items = outline.labelled_items(step["tool"]) if "tool" in step else ()
            visible = frozenset(label for label, *_ in items)
            self._steps[id(step)] = self.of(TaskSite(step, "", {}, (), visible=visible))
        return self._steps[id(step)]

    def _of_step(self, step: Any) -> frozenset[str]:
        if not step:  # of a task in the workbook
            return frozenset(["index", "parent"])
        if id(step) not in self._iter:
            loop = step.get("loop", {})
            found = {"index", "parent"} | {name for key in ("iterator", "element") if (name := loop.get(key))}
            for site in outline.tasks(step):
                for _, then, _ in outline.rules(site.tree):
                    found |= set(then.get("set_iter", {}))
            self._iter[id(step)] = frozenset(found)
        return self._iter[id(step)]
