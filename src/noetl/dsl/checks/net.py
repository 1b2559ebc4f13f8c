"""The net as a whole: what can be reached, what can meet, what can never end. Each finding shows a path.

These checks run on the model, when everything smaller is sound. They see what may happen, not what will: guards are
not evaluated, so most findings are warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import NamedTuple

from noetl.dsl.problem import Check
from noetl.model.playbook import Arc, Goto, Playbook, Step, Task

UNREACHABLE = Check(
    "NTL402",
    "warning",
    "a step can't be reached",
    "No way leads from the entry step to it, so it never runs.",
)
SHADOWED = Check(
    "NTL403",
    "warning",
    "an arc is never tried",
    "In exclusive mode the first matching arc wins, and an arc without a guard always matches: those behind it are dead.",
)
MEETING = Check(
    "NTL405",
    "warning",
    "tokens may meet without a declared join",
    "Two branches that run side by side lead to one step. By default each token fires it. Declare what is meant with "
    "`spec: {join: all}` or `spec: {join: any}`.",
)
RACE = Check(
    "NTL407",
    "warning",
    "two branches that run side by side write one ctx key",
    "The last write wins, and which one is last may differ from run to run. Use different keys or a reducer.",
)
ENDLESS = Check(
    "NTL410",
    "warning",
    "steps run in a circle without a way out",
    "Every step of the circle has an arc that always matches, and none leads out of it.",
)

Report = Callable[[Check, str, str, str | None], None]
"""Records a finding: the check, the key of the place, the message and a hint."""


class Way(NamedTuple):
    """A way from a step to another: by which arc, and whether it is certain to be open after success."""

    target: str
    place: str
    certain: bool


def check(playbook: Playbook, declared_joins: set[str], report: Report) -> None:
    """All checks of the net."""
    ways = {step.name: list(_ways(step)) for step in playbook.steps}
    computed = any(_computed(step) for step in playbook.steps)
    if not computed:  # a computed target may be any step
        _check_reachable(playbook, ways, report)
    _check_shadowed(playbook, report)
    _check_forks(playbook, ways, declared_joins, report)
    _check_endless(playbook, ways, report)


def _ways(step: Step) -> Iterator[Way]:
    sure = True  # until an earlier arc of an exclusive router may have taken the token
    for i, arc in enumerate(step.router.arcs):
        yield Way(arc.step, f"{step.name}/next/{i}", arc.when is True and sure)
        if step.router.mode == "exclusive" and arc.when is not False:
            sure = False
    for goto, place in _gotos(step):
        for arc in goto.to:
            yield Way(arc.step, place, False)


def _gotos(step: Step) -> Iterator[tuple[Goto, str]]:
    if step.tail and step.tail.cases:
        for i, branch in enumerate(step.tail.cases.branches):
            yield from ((item, f"{step.name}/case_{i}") for item in branch.chain if isinstance(item, Goto))


def _computed(step: Step) -> bool:
    return any("{{" in arc.step or "{%" in arc.step for goto, _ in _gotos(step) for arc in goto.to)


# -- reachability ---------------------------------------------------------------------------------------------------


def _check_reachable(playbook: Playbook, ways: dict[str, list[Way]], report: Report) -> None:
    starts = [playbook.entry, *([playbook.final] if playbook.final else [])]
    seen = set(_paths(starts, ways))
    for step in playbook.steps:
        if step.name not in seen:
            sources = [name for name, out in ways.items() if any(way.target == step.name for way in out)]
            because = f"only {', '.join(map(repr, sources))} lead to it" if sources else "no arc leads to it"
            hint = f"the entry step is {playbook.entry!r}; add an arc to it, or remove it"
            report(UNREACHABLE, step.name, f"step {step.name!r} can't be reached: {because}", hint)


def _paths(
    starts: list[str], ways: dict[str, list[Way]], stop: Callable[[str], bool] = lambda name: False
) -> dict[str, list[str]]:
    """A shortest path to every step that can be reached, not going on behind those where `stop` holds."""
    found = {start: [start] for start in starts}
    todo = list(starts)
    for name in todo:
        if stop(name) and name not in starts:
            continue
        for way in ways.get(name, ()):
            if way.target not in found:
                found[way.target] = [*found[name], way.target]
                todo.append(way.target)
    return found


def _check_shadowed(playbook: Playbook, report: Report) -> None:
    for step in playbook.steps:
        if step.router.mode != "exclusive":
            continue
        open_arc = next((i for i, arc in enumerate(step.router.arcs) if arc.when is True), None)
        for i, arc in enumerate(step.router.arcs):
            if open_arc is None or i <= open_arc or _catches_failure(step, arc):
                continue
            first = step.router.arcs[open_arc].step
            message = f"the arc to {arc.step!r} is never tried: the arc to {first!r} before it always matches"
            hint = "move it before, give the other a guard, or set `next.spec.mode: inclusive`"
            report(SHADOWED, f"{step.name}/next/{i}", message, hint)


def _catches_failure(step: Step, arc: Arc) -> bool:
    """After a failure the unguarded arc does not match (S3), so an arc behind it that looks at failures may."""
    guard = arc.when if isinstance(arc.when, str) else ""
    return "event" in guard or any(f"{step.name}.{part}" in guard for part in ("status", "error"))


# -- branches that run side by side ---------------------------------------------------------------------------------


def _check_forks(playbook: Playbook, ways: dict[str, list[Way]], declared: set[str], report: Report) -> None:
    joins = {step.name for step in playbook.steps if step.join == "all"}
    writes = {step.name: _writes(step) for step in playbook.steps}
    for step in playbook.steps:
        for left, right in _side_by_side(step):
            if left == right:
                if left not in declared and left not in joins:
                    _report_meeting(report, left, [step.name, left], [step.name, right])
                continue
            one = _paths([left], ways, joins.__contains__)
            two = _paths([right], ways, joins.__contains__)
            common = one.keys() & two.keys()
            for name in _first_meetings(one, two, common):
                if name not in declared and name not in joins:
                    _report_meeting(report, name, [step.name, *one[name]], [step.name, *two[name]])
            _check_races(step, one, two, common, writes, report)


def _side_by_side(step: Step) -> Iterator[tuple[str, str]]:
    """Pairs of steps that may get a token at the same time."""
    if step.router.mode == "inclusive":
        yield from combinations([arc.step for arc in step.router.arcs if arc.when is not False][:50], 2)
    for goto, _ in _gotos(step):
        yield from combinations([arc.step for arc in goto.to][:50], 2)


def _first_meetings(one: dict[str, list[str]], two: dict[str, list[str]], common: set[str]) -> list[str]:
    """The common steps that each branch first comes to; what lies behind them meets only because they do."""
    return [
        name
        for name in one
        if name in common and not common & set(one[name][:-1]) and not common & set(two[name][:-1])
    ]


def _report_meeting(report: Report, name: str, left: list[str], right: list[str]) -> None:
    message = f"two tokens may meet at {name!r}: {' → '.join(left)} and {' → '.join(right)}"
    hint = (
        "declare `spec: {join: all}` to run once when all have come, or `spec: {join: any}` to run for each"
    )
    report(MEETING, name, message, hint)


def _check_races(
    step: Step,
    one: dict[str, list[str]],
    two: dict[str, list[str]],
    common: set[str],
    writes: dict[str, dict[str, str]],
    report: Report,
) -> None:
    for left in one.keys() - common:
        for right in two.keys() - common:
            for key in sorted(writes.get(left, {}).keys() & writes.get(right, {}).keys()):
                paths = f"{' → '.join([step.name, *one[left]])} and {' → '.join([step.name, *two[right]])}"
                message = f"both {left!r} and {right!r} write the ctx key {key!r} side by side: {paths}"
                hint = f"use two keys, or a reducer such as `{key}: {{$append: ...}}`"
                report(RACE, writes[right][key], message, hint)


def _writes(step: Step) -> dict[str, str]:
    """Keys of ctx that a step writes without a reducer, with the place of the rule."""
    found: dict[str, str] = {}

    def visit(tasks: tuple[Task, ...], owner: str) -> None:
        for task in tasks:
            key = f"{owner}/{task.label}"
            for i, rule in enumerate(task.policy or ()):
                for name, value in rule.then.set_ctx.items():
                    if not (isinstance(value, dict) and any(part.startswith("$") for part in value)):
                        found.setdefault(name, f"{key}/rules/{i}")
            visit(task.body, key)

    visit(step.tasks, step.name)
    return found


# -- circles --------------------------------------------------------------------------------------------------------


def _check_endless(playbook: Playbook, ways: dict[str, list[Way]], report: Report) -> None:
    """Walk along the arcs that are certain: a walk that comes back to itself goes on until a limit ends the run."""
    certain = {name: next((way.target for way in out if way.certain), None) for name, out in ways.items()}
    told: set[str] = set()
    for step in playbook.steps:
        path: list[str] = []
        name: str | None = step.name
        while name is not None and name not in path and name not in told:
            path.append(name)
            name = certain.get(name)
        if name is None or name not in path:
            told |= set(path)
            continue
        circle = path[path.index(name) :]
        told |= set(path)
        leaving = [way for member in circle for way in ways[member] if way.target not in circle]
        if not leaving:
            shown = " → ".join([*circle, circle[0]])
            hint = "give one of its arcs a guard, or add an arc that leads out"
            report(ENDLESS, circle[0], f"these steps run for ever: {shown}", hint)
