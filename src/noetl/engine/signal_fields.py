"""The fields that a playbook reads from the payload of a signal, from its templates: the form of an answer.

The result of a task of `kind: wait` is the payload. Templates read it under several names, and rules and arcs give
parts of it new ones (`set_ctx: {verdict: "{{ outcome.result }}"}`), which are followed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from noetl.engine.net import Net
from noetl.expression import TypedRead, ValueType, is_path, path_text, typed_reads
from noetl.model.playbook import Playbook, Step, Task

MAX_FIELDS = 50
ROUNDS = 3  # how often a part of the payload may get a new name
MAX_EXAMPLE_INDEX = 9  # of a list in an example
EXAMPLES: dict[ValueType, Any] = {"boolean": True, "number": 1, "string": "...", "any": "..."}
Path: TypeAlias = tuple[str | int, ...]


class SignalField(msgspec.Struct, frozen=True):
    """A part of a payload, such as `by.name`, and its type as far as templates show it."""

    path: str
    type: ValueType


class PayloadPart(NamedTuple):
    path: Path
    type: ValueType

    @property
    def field(self) -> SignalField:
        return SignalField(path_text(self.path), self.type)


SignalParts: TypeAlias = dict[tuple[str, str], list[PayloadPart]]
"""By step and label of the task that waits."""
Aliases: TypeAlias = dict[tuple[str, Path], Path]
"""Paths under which templates of a step (of all steps, if it is empty) read a part of the payload."""


class ReadSite(NamedTuple):
    """A template: its step, what can be read there only, and the name that its value gets."""

    step: str
    source: str
    guard: bool = False
    rule_of: str = ""  # the label of the task whose rule it is
    previous: str = ""  # the label of the task before
    arc: bool = False  # whether it is read after the step
    named: tuple[str, Path] | None = None  # the step and the path that read its value


_PARTS: WeakKeyDictionary[Net, SignalParts] = WeakKeyDictionary()


def parts_of(net: Net) -> SignalParts:
    """The parts of the payloads of signals that a playbook reads; cached."""
    parts = _PARTS.get(net)
    if parts is None:
        parts = _PARTS[net] = signal_parts(net.playbook)
    return parts


def signal_commands(net: Net, execution: str, step: str, names: Sequence[str]) -> list[str]:
    """The commands that send the signals which a step waits for, with an example of the data that is read."""
    return [signal_command(execution, name, example_of(_awaited_parts(net, step, name))) for name in names]


def signal_command(execution: str, name: str, data: Any = None) -> str:
    options = [] if data is None else ["--data", msgspec.json.format(msgspec.json.encode(data), indent=0).decode()]
    return shlex.join(["noetl", "runs", "signal", execution, name, *options])


def _awaited_parts(net: Net, step: str, name: str) -> list[PayloadPart]:
    """The parts that are read from a signal of a step: of the tasks that name it or, if none does, of those with a
    template for the name."""
    parts, names = parts_of(net), dict[str, Any]()
    plan = net.steps.get(step)  # None: a fork has another playbook than the events before it
    for _, task in plan.step.every_task if plan is not None else ():
        if task.kind == "wait":
            names[task.label] = task.inputs.get("signals") or [task.inputs.get("signal")]
    literal = [label for label, awaited in names.items() if name in awaited]
    labels = literal or [label for label, awaited in names.items() if any("{{" in str(text) for text in awaited)]
    return list(dict.fromkeys(part for label in labels for part in parts[step, label]))


def example_of(parts: Iterable[PayloadPart]) -> Any:
    """A payload with these parts; None without any."""
    root: dict[str | int, Any] = {}
    for path, kind in parts:
        if any(isinstance(key, int) and not 0 <= key <= MAX_EXAMPLE_INDEX for key in path):
            continue
        node = root
        for key in path[:-1]:
            if not isinstance(node.get(key), dict):
                node[key] = {}
            node = node[key]
        node.setdefault(path[-1], EXAMPLES[kind])
    return _with_lists(root) if root else None


def _with_lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if all(isinstance(key, int) for key in value):
        return [_with_lists(value.get(index)) for index in range(max(value) + 1)]
    return {str(key): _with_lists(child) for key, child in value.items()}


def signal_parts(playbook: Playbook) -> SignalParts:
    waits = [(step, task) for step in playbook.steps for _, task in step.every_task if task.kind == "wait"]
    if not waits:
        return {}
    reads = [(site, list(typed_reads(site.source, guard=site.guard))) for site in _sites(playbook)]
    return {(step.name, task.label): _parts_read(step, task, reads) for step, task in waits}


def _parts_read(step: Step, task: Task, reads: list[tuple[ReadSite, list[TypedRead]]]) -> list[PayloadPart]:
    payload: Path = ("payload",) if "signals" in task.inputs else ()
    aliases = _first_aliases(step, task)
    types: dict[Path, set[ValueType]] = {}
    for _ in range(ROUNDS):
        before = len(aliases)
        for site, site_reads in reads:
            for read in site_reads:
                part = _part(site, read.path, aliases, step, task)
                if part is None:
                    continue
                types.setdefault(part, set()).add(read.type)
                if site.named is not None and is_path(site.source):
                    aliases.setdefault(site.named, part)
        if len(aliases) == before:
            break
    parts = {part[len(payload) :]: kinds for part, kinds in types.items() if part[: len(payload)] == payload}
    whole = [part for part in parts if part and not any(_is_within(other, part) for other in parts)]
    return [PayloadPart(part, _type(parts[part])) for part in whole][:MAX_FIELDS]


def _first_aliases(step: Step, task: Task) -> Aliases:
    """The names of the result of the task and, if it is the last one, of its step."""
    aliases: Aliases = {(step.name, ("tasks", task.label, "result")): (), (step.name, (task.label,)): ()}
    if step.tasks and step.tasks[-1] is task and step.loop is None:
        for path in (("steps", step.name, "result"), ("steps", step.name, "data"), (step.name,)):
            aliases["", path] = ()
        if step.after_call is not None:
            aliases[step.name, ("result",)] = ()
    return aliases


def _part(site: ReadSite, path: Path, aliases: Aliases, step: Step, task: Task) -> Path | None:
    """The part of the payload that a path reads at a site; None if it reads something else."""
    if site.step == step.name:
        if site.rule_of == task.label and path[:2] == ("outcome", "result"):
            return path[2:]
        if site.previous == task.label and path[:1] == ("_prev",):
            return path[1:]
        if site.arc and path[:3] == ("event", "data", "result") and ("", (step.name,)) in aliases:
            return path[3:]
    for length in range(1, len(path) + 1):
        for scope in (site.step, ""):
            if (part := aliases.get((scope, path[:length]))) is not None:
                rest = path[length:]
                if length == 1 and rest[:1] in (("result",), ("data",)):
                    rest = rest[1:]  # a bare step or task is its result, and has fields of this name
                return (*part, *rest) if rest[:1] not in (("status",), ("error",)) else None
    return None


def _is_within(other: Path, part: Path) -> bool:
    return len(other) > len(part) and other[: len(part)] == part


def _type(kinds: set[ValueType]) -> ValueType:
    certain = kinds - {"any"}
    return certain.pop() if len(certain) == 1 else "any"


# -- templates of a playbook ----------------------------------------------------------------------------------------


def _sites(playbook: Playbook) -> Iterator[ReadSite]:
    yield from _values("", playbook.executor.output)
    for step in playbook.steps:
        name = step.name
        for rule in step.admit.rules if step.admit else ():
            yield from _guard(ReadSite(name, ""), rule.when)
        yield from _values(name, step.loop.collection if step.loop else None)
        before = ""
        for _, task in step.every_task:
            yield from _task_sites(step, task, before)
            before = task.label
        for arc in step.router.arcs:
            yield from _guard(ReadSite(name, "", arc=True), arc.when)
            for key, value in arc.args.items():
                yield from _named(ReadSite(name, "", arc=True), value, (arc.step, ("args", key)), (arc.step, (key,)))
        for branch in step.branches:
            yield from _guard(ReadSite(name, "", arc=True), branch.when)


def _task_sites(step: Step, task: Task, before: str) -> Iterator[ReadSite]:
    site = ReadSite(step.name, "", previous=before)
    inputs = [value for key, value in task.inputs.items() if key != "code"]
    yield from (site._replace(source=source) for source in _strings([inputs, task.args]))
    for rule in task.policy or ():
        of_rule = site._replace(rule_of=task.label)
        yield from _guard(of_rule, rule.when)
        for key, value in rule.then.set_ctx.items():
            yield from _named(of_rule, value, ("", ("ctx", key)), ("", (key,)))
        for key, value in rule.then.set_iter.items():
            yield from _named(of_rule, value, (step.name, ("iter", key)), (step.name, (key,)))


def _guard(site: ReadSite, when: bool | str | None) -> Iterator[ReadSite]:
    if isinstance(when, str):
        yield site._replace(source=when, guard=True)


def _named(site: ReadSite, value: Any, *names: tuple[str, Path]) -> Iterator[ReadSite]:
    if isinstance(value, str):
        yield from (site._replace(source=value, named=name) for name in names)
    else:
        yield from (site._replace(source=source) for source in _strings(value))


def _values(step: str, value: Any) -> Iterator[ReadSite]:
    yield from (ReadSite(step, source) for source in _strings(value))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        yield from _strings(item)
