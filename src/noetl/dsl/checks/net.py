"""The net as a whole: what can be reached, what can meet, what can never end. Each finding shows a path.

These checks run on the model, when everything smaller is sound. They see what may happen, not what will: guards are
not evaluated, so most findings are warnings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from noetl.dsl.graph import MAX_PATH_NAMES, Graph, arrows, way_back
from noetl.dsl.problem import Check
from noetl.dsl.tree import is_template
from noetl.model.playbook import Arc, Goto, Playbook, Step, Task

UNREACHABLE = Check("NTL402", "warning", "a step can't be reached")
SHADOWED = Check("NTL403", "warning", "an arc is never tried")
MEETING = Check("NTL405", "warning", "tokens may meet without a declared join")
RACE = Check("NTL407", "warning", "parallel branches write the same ctx key")
ENDLESS = Check("NTL410", "warning", "steps form an endless cycle")

JOIN_HINT = "declare `spec: {join: all}` to run once when all have arrived, or `spec: {join: any}` to run for each"
Report = Callable[[Check, str, str, str | None], None]
"""Records a finding: the check, the key of the place, the message and a hint."""


class Way(NamedTuple):
    """A way from a step to another: by which arc, and whether it is certain to be open after success."""

    target: str
    place: str
    certain: bool


def check(playbook: Playbook, declared_joins: set[str], report: Report) -> None:
    ways = {step.name: list(_ways(step)) for step in playbook.steps}
    graph = Graph({name: [way.target for way in out] for name, out in ways.items()})
    if not any(is_template(way.target) for out in ways.values() for way in out):  # a computed target may be any step
        _check_reachable(playbook, graph, report)
    _check_shadowed(playbook, report)
    _check_forks(playbook, graph, declared_joins, report)
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
    if step.after_call and step.after_call.cases:
        for i, branch in enumerate(step.after_call.cases.branches):
            yield from ((item, f"{step.name}/case_{i}") for item in branch.chain if isinstance(item, Goto))


# -- reachability ---------------------------------------------------------------------------------------------------


def _check_reachable(playbook: Playbook, graph: Graph, report: Report) -> None:
    reached: set[str] = set()
    for start in (playbook.entry, playbook.final):
        if start is not None:
            reached |= {start, *graph.ways(start, graph.union(graph.names))}
    for step in playbook.steps:
        if step.name not in reached:
            path = _way_back(step.name, graph)
            because = f"nothing leads to {path[0]!r} in {arrows(path)}" if path[1:] else "no arc leads to it"
            hint = f"the entry step is {playbook.entry!r}; add an arc to it, or remove it"
            report(UNREACHABLE, step.name, f"step {step.name!r} can't be reached: {because}", hint)


def _way_back(name: str, graph: Graph) -> list[str]:
    """A path to a step that can't be reached, from as far back as it goes, or as is of use to a reader."""
    path = [name]
    while len(path) < MAX_PATH_NAMES:
        before = next((source for source in graph.before[path[0]] if source not in path), None)
        if before is None:
            return path
        path.insert(0, before)
    return path


def _check_shadowed(playbook: Playbook, report: Report) -> None:
    for step in playbook.steps:
        if step.router.mode != "exclusive":
            continue
        open_arc = next((i for i, arc in enumerate(step.router.arcs) if arc.when is True), None)
        for i, arc in enumerate(step.router.arcs):
            if open_arc is None or i <= open_arc or _catches_failure(step, arc):
                continue
            first = step.router.arcs[open_arc].step
            message = f"{step.name} → {arc.step} is never tried: {step.name} → {first} before it always matches"
            hint = "move it before, give the other a guard, or set `next.spec.mode: inclusive`"
            report(SHADOWED, f"{step.name}/next/{i}", message, hint)


def _catches_failure(step: Step, arc: Arc) -> bool:
    """After a failure the unguarded arc does not match (S3), so an arc behind it that looks at failures may."""
    guard = arc.when if isinstance(arc.when, str) else ""
    return "event" in guard or any(f"{step.name}.{part}" in guard for part in ("status", "error"))


# -- parallel branches ---------------------------------------------------------------------------------


class _Fork:
    """Parallel branches that start at one step, and which steps belong to one of them alone."""

    def __init__(self, step: str, branches: list[str], graph: Graph, reach: dict[str, int]) -> None:
        self.step, self.branches, self.graph, self.reach = step, branches, graph, reach
        self.ways: dict[str, dict[str, str]] = {}
        once = self.shared = 0
        for branch in branches:
            self.shared |= once & reach[branch]
            once |= reach[branch]
        self.apart = once & ~self.shared

    def meetings(self, reported: set[str]) -> Iterator[tuple[str, str, str]]:
        """The steps where branches first meet, except those in `reported`, each with the first two branches.

        Later steps are not reported: branches meet there only because they met before. Each source step belongs to one
        branch, so each arc is visited once, however many branches there are.
        """
        graph, starts = self.graph, self.graph.union(self.branches)
        border = [name for name in self._border() if name not in reported]
        sources = 0
        for name in border:
            sources |= graph.sources[name]
        rank = {branch: place for place, branch in enumerate(self.branches)}
        owner = {
            name: place
            for branch, place in rank.items()
            for name in graph.among(self.reach[branch] & sources & self.apart)
        }
        for name in border:
            arriving = {owner[source] for source in graph.among(graph.sources[name] & self.apart)}
            arriving.update(rank[branch] for branch in graph.among((graph.sources[name] | graph.bit[name]) & starts))
            if len(arriving) > 1:
                left, right = sorted(arriving)[:2]
                yield name, self.branches[left], self.branches[right]

    def _border(self) -> list[str]:
        """The shared steps that a branch may come to from steps of its own; looked for from the smaller side."""
        graph, starts = self.graph, set(self.branches)
        if self.apart.bit_count() < self.shared.bit_count():
            sources = [*graph.among(self.apart), *self.branches]
            border = self.shared & graph.union({*starts, *(to for name in sources for to in graph.after[name])})
            return list(graph.among(border))
        own = self.apart | graph.union(starts)
        return [name for name in graph.among(self.shared) if name in starts or graph.sources[name] & own]

    def path(self, branch: str, name: str) -> list[str]:
        if branch not in self.ways:
            self.ways[branch] = self.graph.ways(branch, self.reach[branch] & self.apart)
        return [self.step, *way_back(self.ways[branch], branch, name)]


def _check_forks(playbook: Playbook, graph: Graph, declared: set[str], report: Report) -> None:
    joins = {step.name for step in playbook.steps if step.join == "all"}
    behind = Graph({name: [] if name in joins else out for name, out in graph.after.items()})
    reach = behind.reach()
    reported = declared | joins
    races = _Races(playbook, behind, report)
    for step in playbook.steps:
        for targets in _side_by_side(step):
            times = Counter(target for target in targets if target in reach)
            fork = _Fork(step.name, list(times), behind, reach)
            twice = [(name, name, name) for name in times if times[name] > 1 and name not in reported]
            reported.update(name for name, _, _ in twice)  # reported once per step
            for name, left, right in [*twice, *fork.meetings(reported)]:
                reported.add(name)
                paths = f"{arrows(fork.path(left, name))} and {arrows(fork.path(right, name))}"
                report(MEETING, name, f"two tokens may meet at {name!r}: {paths}", JOIN_HINT)
            races.check(fork)


def _side_by_side(step: Step) -> Iterator[list[str]]:
    """Steps that may get a token at the same time."""
    if step.router.mode == "inclusive":
        yield [arc.step for arc in step.router.arcs if arc.when is not False]
    for goto, _ in _gotos(step):
        yield [arc.step for arc in goto.to]


class _Races:
    def __init__(self, playbook: Playbook, graph: Graph, report: Report) -> None:
        self.graph, self.report = graph, report
        self.places = {step.name: _writes(step) for step in playbook.steps}
        self.writers: dict[str, int] = {}
        for name, places in self.places.items():
            for key in places:
                self.writers[key] = self.writers.get(key, 0) | graph.bit[name]
        self.all_writers = 0
        for bits in self.writers.values():
            self.all_writers |= bits
        self.reported: set[tuple[str, str, str]] = set()
        self.seen: set[frozenset[int]] = set()

    def check(self, fork: _Fork) -> None:
        writing = fork.apart & self.all_writers
        groups = frozenset(writing & fork.reach[branch] for branch in fork.branches)
        if writing.bit_count() < 2 or groups in self.seen:
            return
        self.seen.add(groups)
        rank = {
            name: place
            for place, branch in enumerate(fork.branches)
            for name in self.graph.among(writing & fork.reach[branch])
        }
        for key in sorted(self.writers):
            together = self.writers[key] & writing
            if together & (together - 1):
                first: dict[str, str] = {}  # a writer of each branch
                for name in sorted(self.graph.among(together), key=rank.__getitem__):
                    first.setdefault(fork.branches[rank[name]], name)
                self._report(fork, key, first)

    def _report(self, fork: _Fork, key: str, first: dict[str, str]) -> None:
        (branch, left), *others = first.items()
        for other, right in others:
            if (left, right, key) in self.reported:
                continue
            self.reported.add((left, right, key))
            paths = f"{arrows(fork.path(branch, left))} and {arrows(fork.path(other, right))}"
            message = f"both {left!r} and {right!r} write the ctx key {key!r} in parallel: {paths}"
            hint = f"use two keys, or a reducer such as `{key}: {{$append: ...}}`"
            self.report(RACE, self.places[right][key], message, hint)


def _writes(step: Step) -> dict[str, str]:
    """Keys of ctx that a step writes without a reducer, with the place where."""
    writes: dict[str, str] = {}

    def visit(tasks: tuple[Task, ...], owner: str) -> None:
        for task in tasks:
            key = f"{owner}/{task.label}"
            for i, rule in enumerate(task.policy or ()):
                for name, value in rule.then.set_ctx.items():
                    if not (isinstance(value, dict) and any(part.startswith("$") for part in value)):
                        writes.setdefault(name, f"{key}/rules/{i}/{name}")
            visit(task.body, key)

    visit(step.tasks, step.name)
    return writes


# -- cycles --------------------------------------------------------------------------------------------------------


def _check_endless(playbook: Playbook, ways: dict[str, list[Way]], report: Report) -> None:
    """Walk along the arcs that are certain: a walk that comes back to itself goes on until a limit ends the run."""
    certain = {name: next((way.target for way in out if way.certain), None) for name, out in ways.items()}
    reported: set[str] = set()
    for step in playbook.steps:
        path: dict[str, None] = {}
        name: str | None = step.name
        while name is not None and name not in path and name not in reported:
            path[name] = None
            name = certain.get(name)
        reported.update(path)
        if name is None or name not in path:
            continue
        cycle = list(path)[list(path).index(name) :]
        members = set(cycle)
        if all(way.target in members for member in cycle for way in ways[member]):
            hint = "give one of its arcs a guard, or add an arc that leads out"
            report(ENDLESS, cycle[0], f"endless cycle: {arrows([*cycle, cycle[0]])}", hint)
