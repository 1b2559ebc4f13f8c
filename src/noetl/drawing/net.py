"""What every drawing shows of a playbook: nodes, edges and their short texts, free of any format.

All text here is one printable line: line breaks, control characters and the marks that turn writing around
are gone, so a format has only its own quoting to care for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from noetl.model.playbook import Admit, Branch, Goto, Guard, Loop, Playbook, Step, Task

Role: TypeAlias = Literal["step", "missing", "computed"]
BadgeKind: TypeAlias = Literal["loop", "gate", "join", "time", "event", "final", "route"]

LABEL_LENGTH = 40
TASKS_SHOWN = 12
PARALLEL_DEFAULT = 10
COMPUTED = "?"
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"

FAILURE_EVENTS = ("step.failed", "call.error")
SUCCESS = re.compile(r"==\s*['\"](ok|success|done|completed|step\.done)['\"]|is\s+none\b|\bnot\s+[\w.]+\.error\b")


@dataclass(frozen=True, slots=True)
class Badge:
    """A short remark on a step; `title` tells the rest."""

    kind: BadgeKind
    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class TaskLine:
    """One line of a step's pipeline: `note` holds its jumps, `depth` counts enclosing iterator tasks."""

    label: str
    kind: str = ""
    note: str = ""
    depth: int = 0

    @property
    def text(self) -> str:
        return "  " * self.depth + self.label + (f" · {self.kind}" if self.kind else "") + self.note


@dataclass(frozen=True, slots=True)
class Node:
    """A step, a target no step has, or the one node that stands for every computed target."""

    name: str
    role: Role = "step"
    desc: str = ""
    badges: tuple[Badge, ...] = ()
    tasks: tuple[TaskLine, ...] = ()
    entry: bool = False
    final: bool = False
    inclusive: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """A way from node `source` to node `target`, both by index. An unguarded one has an empty guard."""

    source: int
    target: int
    guard: str = ""
    delay: float | None = None
    failure: bool = False

    @property
    def label(self) -> str:
        """What is written at the line, short."""
        return " · ".join(part for part in (shorten(self.guard, LABEL_LENGTH), self.wait) if part)

    @property
    def wait(self) -> str:
        return "" if self.delay is None else f"after {duration(self.delay)}"


@dataclass(frozen=True, slots=True)
class Net:
    """The whole drawing; `entry` is an index, None where the entry step does not exist."""

    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    entry: int | None

    def tooltip(self, edge: Edge) -> str:
        """All there is to say about an edge, in lines."""
        way = f"{self.nodes[edge.source].name} → {self.nodes[edge.target].name}"
        when = f"when {edge.guard}" if edge.guard else ""
        return "\n".join(part for part in (way, when, edge.wait) if part)


def net_of(playbook: Playbook) -> Net:
    """The net of a playbook, steps in its order, then what its arcs name besides."""
    drawn = [node_of(step, playbook) for step in playbook.steps]
    index: dict[str, int] = {}
    for place, step in enumerate(playbook.steps):
        index.setdefault(step.name, place)
    edges: list[Edge] = []
    for source, step in enumerate(playbook.steps):
        for way in ways_out(step):
            key = f"{{{{{COMPUTED}" if is_computed(way.to) else way.to
            if key not in index:
                index[key] = len(drawn)
                drawn.append(stranger(way.to))
            edges.append(way.edge(source, index[key]))
    return Net(one_line(playbook.name), tuple(drawn), tuple(edges), index.get(playbook.entry))


def stranger(target: str) -> Node:
    if is_computed(target):
        return Node(COMPUTED, "computed", "a target computed when the step ends")
    return Node(one_line(target), "missing", "no step has this name")


def is_computed(target: str) -> bool:
    return "{{" in target


# --- edges --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """A way out of a step, its target still a name."""

    to: str
    guards: tuple[str, ...]
    delay: float | None
    failure: bool

    def edge(self, source: int, target: int) -> Edge:
        said = [guard for guard in self.guards if guard]
        if is_computed(self.to):
            said.append(f"to {bare(self.to)}")
        return Edge(source, target, ", ".join(said), self.delay, self.failure)


def ways_out(step: Step) -> Iterator[Way]:
    """Gotos of classic branches first, as they are tried first, then the router's arcs."""
    if step.tail and step.tail.cases:
        for branch in step.tail.cases.branches:
            yield from gotos(step, branch)
    guarded = False
    for arc in step.router.arcs:
        says = "else" if arc.when is True and guarded and step.router.mode == "exclusive" else bare(arc.when)
        guarded = guarded or arc.when is not True
        yield Way(arc.step, (says,), arc.delay, catches_failure(arc.when, step.name))


def gotos(step: Step, branch: Branch) -> Iterator[Way]:
    when = bare(branch.when)
    for link in branch.chain:
        if isinstance(link, Goto):
            for arc in link.to:
                delay = link.delay if arc.delay is None else arc.delay
                failure = any(catches_failure(guard, step.name) for guard in (branch.when, arc.when))
                yield Way(arc.step, (when, bare(arc.when)), delay, failure)


def catches_failure(guard: Guard | None, step: str) -> bool:
    """Whether the guard looks at a failure of its own step. A guess that only chooses how the line looks."""
    if not isinstance(guard, str) or SUCCESS.search(guard):
        return False
    if any(name in guard for name in FAILURE_EVENTS):
        return "!=" not in guard
    owner = rf"(?<![\w.])(?:(?:steps\.)?{re.escape(step)}|this|event|steps\[['\"]{re.escape(step)}['\"]\])"
    return re.search(rf"{owner}\.(?:status|error)\b", guard) is not None


# --- nodes --------------------------------------------------------------------------------------------------


def node_of(step: Step, playbook: Playbook) -> Node:
    final = step.name == playbook.final
    inclusive = step.router.mode == "inclusive" and len(step.router.arcs) > 1
    return Node(
        name=one_line(step.name),
        desc=one_line(step.desc or ""),
        badges=tuple(badges(step, final=final, inclusive=inclusive)),
        tasks=at_most(tuple(task_lines(step))),
        entry=step.name == playbook.entry,
        final=final,
        inclusive=inclusive,
    )


def badges(step: Step, *, final: bool, inclusive: bool) -> Iterator[Badge]:
    if final:
        yield Badge("final", "final", "runs once when nothing else can, after success and after failure")
    if step.join == "all":
        yield Badge("join", "join all", "fires once, when no other token can still arrive")
    if step.admit:
        yield Badge("gate", "admit gate", admission(step.admit))
    if step.loop:
        yield loop_badge(step.loop)
    if timers := step.spec.get("timers"):
        yield Badge("time", f"timers {durations(timers)}", "timers armed when the step is entered")
    if (timeout := step.spec.get("timeout")) is not None:
        yield Badge("time", f"timeout {durations(timeout)}", "the step fails when it takes longer")
    if step.tail and step.tail.cases and step.tail.cases.evaluate == "on_event":
        yield Badge("event", "on event", "listens to events of the execution")
    if inclusive:
        yield Badge("route", "fan-out all", "every arc whose guard holds fires")


def admission(admit: Admit) -> str:
    rules = [f"{'allow' if rule.allow else 'hold'} when {bare(rule.when) or 'true'}" for rule in admit.rules]
    return "; ".join(rule.replace("when else", "otherwise") for rule in rules)


def loop_badge(loop: Loop) -> Badge:
    each = f"each {one_line(loop.iterator)} in {bare(str(loop.collection))}"
    if loop.mode == "parallel":
        return Badge("loop", f"loop parallel ×{loop.max_in_flight or PARALLEL_DEFAULT}", each)
    return Badge("loop", "loop sequential", each)


def task_lines(step: Step) -> Iterator[TaskLine]:
    yield from pipeline(step.tasks)
    if step.tail and step.tail.cases:
        for number, branch in enumerate(step.tail.cases.branches):
            calls = tuple(link for link in branch.chain if isinstance(link, Task))
            yield from pipeline(calls, prefix=f"case_{number}/")
    if step.tail and step.tail.sink:
        yield from pipeline((step.tail.sink,))


def pipeline(tasks: tuple[Task, ...], prefix: str = "", depth: int = 0) -> Iterator[TaskLine]:
    places = {task.label: place for place, task in enumerate(tasks)}
    for place, task in enumerate(tasks):
        yield TaskLine(one_line(prefix + task.label), one_line(task.kind), jumps(task, place, places), depth)
        yield from pipeline(task.body, depth=depth + 1)


def jumps(task: Task, place: int, places: dict[str, int]) -> str:
    targets = dict.fromkeys(rule.then.to for rule in task.policy or () if rule.then.do == "jump" and rule.then.to)
    return "".join(f" {'↩' if places.get(to, 0) <= place else '↪'} {one_line(to)}" for to in targets)


def at_most(lines: tuple[TaskLine, ...]) -> tuple[TaskLine, ...]:
    if len(lines) <= TASKS_SHOWN:
        return lines
    return (*lines[: TASKS_SHOWN - 1], TaskLine(f"… {len(lines) - TASKS_SHOWN + 1} more"))


# --- short texts --------------------------------------------------------------------------------------------


def one_line(text: str) -> str:
    """The text with every white space a blank and everything unprintable a replacement mark."""
    if text.isprintable():
        return text
    return "".join(" " if char.isspace() else char if char.isprintable() else UNPRINTABLE for char in text)


def bare(guard: Guard | None) -> str:
    """The guard without its braces; empty for one that always holds."""
    if guard is None:
        return "else"
    if isinstance(guard, bool):
        return "" if guard else "never"
    said = guard.strip()
    if said.startswith("{{") and said.endswith("}}") and len(said) > 3:
        said = said[2:-2].removeprefix("-").removesuffix("-")
    return " ".join(one_line(said).split())


def shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: max(length - 1, 0)].rstrip() + "…"


def duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def durations(value: Any) -> str:
    """A duration as people write it, or several by name."""
    if isinstance(value, dict):
        return joined(f"{name} {durations(each)}" for name, each in value.items())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return duration(value)
    return one_line(str(value))


def joined(parts: Iterable[str]) -> str:
    return shorten(one_line(", ".join(parts)), LABEL_LENGTH)
