"""Checks of the whole net: reachability, meeting tokens, endless cycles. Each finding shows a path.

They run on the model, after all other checks have passed. Guards are not evaluated, so most findings are warnings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from noetl.dsl.graph import MAX_PATH_NAMES, DirectedGraph, arrows, way_back
from noetl.dsl.problem import Check
from noetl.dsl.tree import is_template
from noetl.model.playbook import Goto, Playbook, Step, Task

UNREACHABLE = Check("NTL402", "warning", "a step cannot be reached")
SHADOWED = Check("NTL403", "warning", "an arc is never tried")
MEETING = Check("NTL405", "warning", "tokens may meet without a declared join")
RACE = Check("NTL407", "warning", "parallel branches write the same ctx key")
ENDLESS = Check("NTL410", "warning", "steps form an endless cycle")

JOIN_HINT = "declare `spec: {join: all}` to run once when all have arrived, or `spec: {join: any}` to run for each"
Report = Callable[[Check, str, str, str | None, Sequence[str]], None]
"""Records a finding: the check, the key of the place, the message, a hint, and the steps on its path."""


class Way(NamedTuple):
    target: str
    certain: bool
    """Whether it is always open after success."""


def check(playbook: Playbook, declared_joins: set[str], report: Report) -> None:
    ways = {step.name: list(_ways(step)) for step in playbook.steps}
    graph = DirectedGraph({name: [way.target for way in out] for name, out in ways.items()})
    if not any(is_template(way.target) for out in ways.values() for way in out):  # a computed target may be any step
        _check_reachable(playbook, graph, report)
    _check_shadowed(playbook, report)
    _check_forks(playbook, graph, declared_joins, report)
    _check_endless(playbook, ways, report)


def _ways(step: Step) -> Iterator[Way]:
    sure = True  # until an earlier arc of an exclusive router may have taken the token
    for arc in step.router.arcs:
        yield Way(arc.step, arc.when is True and sure)
        if step.router.mode == "exclusive" and arc.when is not False:
            sure = False
    yield from (Way(arc.step, False) for goto in _gotos(step) for arc in goto.to)


def _gotos(step: Step) -> Iterator[Goto]:
    for branch in step.branches:
        yield from (item for item in branch.chain if isinstance(item, Goto))


def _check_reachable(playbook: Playbook, graph: DirectedGraph, report: Report) -> None:
    reached: set[str] = set()
    for start in (playbook.entry, playbook.final):
        if start is not None:
            reached |= {start, *graph.ways(start, graph.union(graph.names))}
    for step in playbook.steps:
        if step.name in reached:
            continue
        path = [step.name]  # begins at the farthest step before it, within the limit
        while len(path) < MAX_PATH_NAMES:
            before = next((source for source in graph.before[path[0]] if source not in path), None)
            if before is None:
                break
            path.insert(0, before)
        because = f"nothing leads to {path[0]!r} in {arrows(path)}" if path[1:] else "no arc leads to it"
        arc = f"`next: {{arcs: [{{step: {step.name}}}]}}`"
        hint = f"steps do not follow each other by order: add {arc} to the step before it (entry: {playbook.entry!r})"
        report(UNREACHABLE, step.name, f"step {step.name!r} cannot be reached: {because}", hint, path)


def _check_shadowed(playbook: Playbook, report: Report) -> None:
    """Arcs behind an unguarded one; after a failure that one does not match (S3), so arcs that see failures may."""
    for step in playbook.steps:
        open_arc = next((i for i, arc in enumerate(step.router.arcs) if arc.when is True), None)
        if step.router.mode != "exclusive" or open_arc is None:
            continue
        first = step.router.arcs[open_arc].step
        failure = ("event", f"{step.name}.status", f"{step.name}.error")
        for i, arc in enumerate(step.router.arcs):
            if i > open_arc and not (isinstance(arc.when, str) and any(part in arc.when for part in failure)):
                message = f"{step.name} → {arc.step} is never tried: {step.name} → {first} before it always matches"
                hint = "move it before, give the other a guard, or set `next.spec.mode: inclusive`"
                report(SHADOWED, f"{step.name}/next/{i}", message, hint, [step.name, arc.step])


class _Fork:
    """Parallel branches that start at one step, and which steps belong to one of them alone."""

    def __init__(self, step: str, branches: list[str], graph: DirectedGraph, reach: dict[str, int]) -> None:
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
            sources |= graph.sources[name] & self.apart
        rank = {branch: place for place, branch in enumerate(self.branches)}
        owner = {name: rank[start] for start in self.branches for name in graph.among(self.reach[start] & sources)}
        for name in border:
            arriving = {owner[source] for source in graph.among(graph.sources[name] & self.apart)}
            arriving.update(rank[branch] for branch in graph.among((graph.sources[name] | graph.bit[name]) & starts))
            if len(arriving) > 1:
                first, second, *_ = sorted(arriving)
                yield name, self.branches[first], self.branches[second]

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


def _check_forks(playbook: Playbook, graph: DirectedGraph, declared: set[str], report: Report) -> None:
    joins = {step.name for step in playbook.steps if step.join == "all"}
    behind = DirectedGraph({name: [] if name in joins else out for name, out in graph.after.items()})
    reach = behind.reach()
    reported = declared | joins
    races = _Races(playbook, behind, report)
    for step in playbook.steps:
        arcs = [arc.step for arc in step.router.arcs if arc.when is not False and step.router.mode == "inclusive"]
        for targets in (arcs, *([arc.step for arc in goto.to] for goto in _gotos(step))):
            times = Counter(target for target in targets if target in reach)
            fork = _Fork(step.name, list(times), behind, reach)
            twice = [(name, name, name) for name in times if times[name] > 1 and name not in reported]
            reported.update(name for name, _, _ in twice)  # reported once per step
            for name, first, second in [*twice, *fork.meetings(reported)]:
                reported.add(name)
                first_path, second_path = fork.path(first, name), fork.path(second, name)
                message = f"two tokens may meet at {name!r}: {arrows(first_path)} and {arrows(second_path)}"
                report(MEETING, name, message, JOIN_HINT, [*first_path, *second_path])
            races.check(fork)


class _Races:
    def __init__(self, playbook: Playbook, graph: DirectedGraph, report: Report) -> None:
        self.graph, self.report = graph, report
        self.places = {step.name: _writes(step) for step in playbook.steps}
        self.writers: dict[str, int] = {}
        self.all_writers = 0
        for name, places in self.places.items():
            for key in places:
                self.writers[key] = self.writers.get(key, 0) | graph.bit[name]
                self.all_writers |= graph.bit[name]
        self.reported: set[tuple[str, str, str]] = set()
        self.checked: set[frozenset[int]] = set()

    def check(self, fork: _Fork) -> None:
        writing = fork.apart & self.all_writers
        groups = frozenset(writing & fork.reach[branch] for branch in fork.branches)
        if writing.bit_count() < 2 or groups in self.checked:
            return
        self.checked.add(groups)
        among = self.graph.among
        branch_of = {name: branch for branch in fork.branches for name in among(writing & fork.reach[branch])}
        rank = {branch: place for place, branch in enumerate(fork.branches)}
        for key in sorted(self.writers):
            together = self.writers[key] & writing
            if not together & (together - 1):
                continue
            first: dict[str, str] = {}  # a writer of each branch
            for name in sorted(among(together), key=lambda name: rank[branch_of[name]]):
                first.setdefault(branch_of[name], name)
            (branch, writer), *others = first.items()
            for other, rival in others:
                if (writer, rival, key) not in self.reported:
                    self.reported.add((writer, rival, key))
                    paths = [fork.path(branch, writer), fork.path(other, rival)]
                    both = " and ".join(map(arrows, paths))
                    message = f"both {writer!r} and {rival!r} write the ctx key {key!r} in parallel: {both}"
                    hint = f"use two keys, or a reducer such as `{key}: {{$append: ...}}`"
                    self.report(RACE, self.places[rival][key], message, hint, [*paths[0], *paths[1]])


def _writes(step: Step) -> dict[str, str]:
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


def _check_endless(playbook: Playbook, ways: dict[str, list[Way]], report: Report) -> None:
    """Walk along the arcs that are certain: a walk that returns to a step repeats until a limit ends the run."""
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
            report(ENDLESS, cycle[0], f"endless cycle: {arrows([*cycle, cycle[0]])}", hint, cycle)
