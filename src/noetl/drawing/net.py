"""Nodes and edges of a playbook with their short texts, for every format.

All text is one printable line, without control characters, so a format only needs its own quoting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from noetl.model.playbook import Goto, Guard, Playbook, Step, Task

Role: TypeAlias = Literal["step", "missing", "computed"]
BadgeKind: TypeAlias = Literal["loop", "gate", "join", "time", "event", "final", "route"]

LABEL_LENGTH = 40
MAX_TASKS = 12
PARALLEL_DEFAULT = 10

SUCCESS = re.compile(r"==\s*['\"](ok|success|done|completed|step\.done)['\"]|is\s+none\b|\bnot\s+[\w.]+\.error\b")


class Badge(NamedTuple):
    kind: BadgeKind
    text: str
    title: str = ""


class TaskLine(NamedTuple):
    """A line of a step's pipeline: `note` lists its jumps, `depth` counts enclosing iterator tasks, `place` is its key
    among the places of the playbook."""

    label: str
    kind: str = ""
    note: str = ""
    depth: int = 0
    place: str = ""

    @property
    def text(self) -> str:
        return "  " * self.depth + self.label + (f" · {self.kind}" if self.kind else "") + self.note


class DrawnNode(NamedTuple):
    """A step, a target that is not a step, or the node of all computed targets."""

    name: str
    role: Role = "step"
    desc: str = ""
    badges: tuple[Badge, ...] = ()
    tasks: tuple[TaskLine, ...] = ()
    entry: bool = False
    final: bool = False
    inclusive: bool = False
    place: str = ""


NO_ARC = -1


class Edge(NamedTuple):
    """An arc from node `source` to node `target`, both by index. Without a guard, `guard` is empty. `arc` is its number
    in the router of its step, or `NO_ARC` for the `next` of a classic branch."""

    source: int
    target: int
    guard: str = ""
    delay: float | None = None
    failure: bool = False
    arc: int = NO_ARC
    place: str = ""

    @property
    def label(self) -> str:
        return " · ".join(part for part in (shorten(self.guard, LABEL_LENGTH), self.wait) if part)

    @property
    def wait(self) -> str:
        return "" if self.delay is None else f"after {duration(self.delay)}"


class DrawnNet(NamedTuple):
    """`entry` is an index; None if the entry step does not exist."""

    name: str
    nodes: tuple[DrawnNode, ...]
    edges: tuple[Edge, ...]
    entry: int | None

    def tooltip(self, edge: Edge) -> str:
        when = f"when {edge.guard}" if edge.guard else ""
        return "\n".join(part for part in (self.ends(edge), when, edge.wait) if part)

    def ends(self, edge: Edge) -> str:
        return f"{self.nodes[edge.source].name} → {self.nodes[edge.target].name}"


def net_of(playbook: Playbook) -> DrawnNet:
    nodes = [node_of(step, playbook) for step in playbook.steps]
    index: dict[str, int] = {}
    for place, step in enumerate(playbook.steps):
        index.setdefault(step.name, place)
    edges: list[Edge] = []
    for source, step in enumerate(playbook.steps):
        for drawn in arcs_of(step):
            name, guards = drawn.target, drawn.guards
            target = DrawnNode(one_line(name), "missing", "no step has this name")
            if "{{" in name:
                target = DrawnNode("?", "computed", "a target computed when the step ends")
                name, guards = "{{", (*guards, f"to {bare(name)}")
            if name not in index:
                index[name] = len(nodes)
                nodes.append(target)
            guard = ", ".join(filter(None, guards))
            edges.append(Edge(source, index[name], guard, drawn.delay, drawn.failure, drawn.arc, drawn.place))
    return DrawnNet(one_line(playbook.name), tuple(nodes), tuple(edges), index.get(playbook.entry))


class DrawnArc(NamedTuple):
    target: str
    guards: tuple[str, ...]
    delay: float | None
    failure: bool
    arc: int
    place: str


def arcs_of(step: Step) -> Iterator[DrawnArc]:
    """The arcs of a step: gotos of classic branches, which are tried first, then those of the router."""
    for number, branch in enumerate(step.branches):
        for goto, arc in [(link, arc) for link in branch.chain if isinstance(link, Goto) for arc in link.to]:
            delay = goto.delay if arc.delay is None else arc.delay
            failure = any(catches_failure(guard, step.name) for guard in (branch.when, arc.when))
            guards, place = (bare(branch.when), bare(arc.when)), f"{step.name}/case_{number}/{goto.label}"
            yield DrawnArc(arc.step, guards, delay, failure, NO_ARC, place)
    guarded = False
    for number, arc in enumerate(step.router.arcs):
        guard = "else" if arc.when is True and guarded and step.router.mode == "exclusive" else bare(arc.when)
        guarded = guarded or arc.when is not True
        failure = catches_failure(arc.when, step.name)
        yield DrawnArc(arc.step, (guard,), arc.delay, failure, number, f"{step.name}/next/{number}")


def catches_failure(guard: Guard | None, step: str) -> bool:
    """Whether the guard reads a failure of its own step. A guess that only affects the style of the line."""
    if not isinstance(guard, str) or SUCCESS.search(guard):
        return False
    if any(name in guard for name in ("step.failed", "call.error")):
        return "!=" not in guard
    owner = rf"(?<![\w.])(?:(?:steps\.)?{re.escape(step)}|this|event|steps\[['\"]{re.escape(step)}['\"]\])"
    return re.search(rf"{owner}\.(?:status|error)\b", guard) is not None


def node_of(step: Step, playbook: Playbook) -> DrawnNode:
    final = step.name == playbook.final
    inclusive = step.router.mode == "inclusive" and len(step.router.arcs) > 1
    cases, sink = (step.after_call.cases, step.after_call.sink) if step.after_call else (None, None)
    tasks = tuple(pipeline(step.tasks, step.name))
    for number, branch in enumerate(cases.branches if cases else ()):
        calls = [link for link in branch.chain if isinstance(link, Task)]
        tasks += tuple(pipeline(calls, f"{step.name}/case_{number}", prefix=f"case_{number}/"))
    if sink:
        tasks += tuple(pipeline([sink], f"{step.name}/sink"))
    if len(tasks) > MAX_TASKS:
        tasks = (*tasks[: MAX_TASKS - 1], TaskLine(f"… {len(tasks) - MAX_TASKS + 1} more"))
    return DrawnNode(
        name=one_line(step.name),
        desc=one_line(step.desc or ""),
        badges=tuple(badges(step, final=final, inclusive=inclusive)),
        tasks=tasks,
        entry=step.name == playbook.entry,
        final=final,
        inclusive=inclusive,
        place=step.name,
    )


def badges(step: Step, *, final: bool, inclusive: bool) -> Iterator[Badge]:
    if final:
        yield Badge("final", "final", "runs once when nothing else can, after success and after failure")
    if step.join == "all":
        yield Badge("join", "join all", "fires once, when no other token can still arrive")
    if step.admit:
        rules = [f"{'allow' if rule.allow else 'hold'} when {bare(rule.when) or 'true'}" for rule in step.admit.rules]
        yield Badge("gate", "admit gate", "; ".join(rule.replace("when else", "otherwise") for rule in rules))
    if loop := step.loop:
        mode = f"parallel ×{loop.max_in_flight or PARALLEL_DEFAULT}" if loop.mode == "parallel" else "sequential"
        yield Badge("loop", f"loop {mode}", f"each {one_line(loop.iterator)} in {bare(str(loop.collection))}")
    if timers := step.spec.get("timers"):
        yield Badge("time", f"timers {durations(timers)}", "timers armed when the step is entered")
    if (timeout := step.spec.get("timeout")) is not None:
        yield Badge("time", f"timeout {durations(timeout)}", "the step fails when it takes longer")
    if step.after_call and step.after_call.cases and step.after_call.cases.evaluate == "on_event":
        yield Badge("event", "on event", "listens to events of the execution")
    if inclusive:
        yield Badge("route", "fan-out all", "every arc whose guard holds fires")


def pipeline(tasks: Sequence[Task], owner: str, prefix: str = "", depth: int = 0) -> Iterator[TaskLine]:
    numbers = {task.label: number for number, task in enumerate(tasks)}
    for number, task in enumerate(tasks):
        targets = dict.fromkeys(rule.then.to for rule in task.policy or () if rule.then.do == "jump" and rule.then.to)
        jumps = "".join(f" {'↑' if numbers.get(to, 0) <= number else '↓'} {one_line(to)}" for to in targets)
        place = f"{owner}/{task.label}"
        yield TaskLine(one_line(prefix + task.label), one_line(task.kind), jumps, depth, place)
        yield from pipeline(task.body, place, depth=depth + 1)


def one_line(text: str) -> str:
    """The text with blanks for white space and a replacement mark for every unprintable character."""
    spaced = "".join(" " if char.isspace() else char for char in text)
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in spaced)


def bare(guard: Guard | None) -> str:
    """The guard without its braces; empty for one that always holds."""
    if guard is None:
        return "else"
    if isinstance(guard, bool):
        return "" if guard else "never"
    text = guard.strip()
    if text.startswith("{{") and text.endswith("}}") and len(text) > 3:
        text = text[2:-2].removeprefix("-").removesuffix("-")
    return " ".join(one_line(text).split())


def shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: max(length - 1, 0)].rstrip() + "…"


def duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def durations(value: Any) -> str:
    if isinstance(value, dict):
        parts = ", ".join(f"{name} {durations(item)}" for name, item in value.items())
        return shorten(one_line(parts), LABEL_LENGTH)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return duration(value)
    return one_line(str(value))
