"""Which names a template can see, by its place (S13).

A *root* is a namespace or a local that the engine provides. A *bare name* is a convenience: a key of `args`, `ctx`,
`iter` or `workload`, a task's label or a step's name, looked up in that order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from noetl.dsl.document_parts import Document
from noetl.dsl.graph import DirectedGraph

BASE = frozenset(["workload", "ctx", "steps", "execution_id"])
TOKEN = frozenset(["args", "args_by"])
PIPELINE = BASE | TOKEN | {"iter", "tasks", "_prev", "_task", "_attempt"}


class TemplatePlace(NamedTuple):
    """A place of templates, in words, and the names that are visible there."""

    words: str
    roots: frozenset[str]
    bare: frozenset[str] = frozenset()
    """Bare names that the engine provides."""


PLACES = {
    "workload": TemplatePlace("in `workload`", frozenset(["workload", "execution_id"])),
    "output": TemplatePlace("in `output`", BASE),
    "admit": TemplatePlace("in an admission rule", BASE | TOKEN | {"event"}),
    "loop": TemplatePlace("in `loop.in`", BASE | TOKEN),
    "input": TemplatePlace("in a tool's input", PIPELINE | {"keychain"}),
    "timeout": TemplatePlace("in `timeout` of a task", PIPELINE),
    "skip": TemplatePlace("in a skip rule", PIPELINE),
    "rule": TemplatePlace("in a rule of a task", PIPELINE | {"outcome"}),
    "arc": TemplatePlace("on an arc", BASE | TOKEN | {"event"}),
}

ROOT_ADVICE = {
    "outcome": ("it exists in the rules of a task's policy", "read `steps.NAME.result`, `.status` or `.error`"),
    "event": ("it exists on arcs and in admission rules", "read `outcome` in a rule, or `steps.NAME.status`"),
    "iter": ("it exists inside a pipeline", "write what others need to `ctx` with `set_ctx`"),
    **dict.fromkeys(["tasks", "_prev"], ("it exists inside a pipeline", "read `steps.NAME.result`")),
    "_task": ("it exists inside a pipeline", "read `event.data.task` on an arc"),
    "_attempt": ("it exists inside a pipeline", "read `event.data.attempt` on an arc"),
    **dict.fromkeys(TOKEN, ("it exists once a token has arrived at a step", "read `workload`")),
    **dict.fromkeys(["steps", "ctx"], ("it exists while a workflow runs", "read `workload`")),
    "keychain": ("it exists in the inputs of a tool", "pass the credential to the tool by `auth`"),
    "result": ("it exists in a classic case, `vars` or `sink`", "read `outcome.result` in a rule, or `_prev`"),
    "response": ("it exists in a classic case, `vars` or `sink`", "read `outcome` in a rule"),
    "this": ("it exists in a classic case, `vars` or `sink`", "read `outcome` in a rule"),
    "vars": ("it exists in the classic dialect", "read `ctx`"),
}
"""For a root seen in the wrong place: where it lives, and what to read instead."""


class Arriving:
    """Args that a token may carry when it arrives at a step: each arc adds its own to those the token already has."""

    def __init__(self, document: Document, final: str | None) -> None:
        self._bit: dict[str, int] = {}
        own: dict[tuple[str, str], int] = {}
        arcs: dict[str, list[str]] = {step["step"]: [] for step in document.steps}
        for step in document.steps:
            for target in document.targets(step):
                arcs[step["step"]].append(target.name)
                arc = (step["step"], target.name)
                own[arc] = own.get(arc, 0) | self._bits(target.args)
        graph = DirectedGraph(arcs)
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


class LocalName(NamedTuple):
    """The bare names inside one pipeline."""

    iter: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    args: frozenset[str] = frozenset()
