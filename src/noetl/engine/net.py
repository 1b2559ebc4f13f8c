"""A playbook made ready to run: guards compiled, arcs prepared, and the steps before a join computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NoReturn

from noetl.engine.after_call import CompileAfterCall
from noetl.errors import TemplateError
from noetl.expression import Read, parse, prepare
from noetl.model.playbook import Arc, Goto, Guard, Playbook, Step, Task

Test = Callable[[Mapping[str, Any]], bool]
MAX_CACHED_JOINS = 100  # Maximum number of joining steps of a net that are cached with their predecessors


class ArcPlan:
    """An arc with its guard compiled."""

    __slots__ = ("args", "delay", "sees_failure", "step", "test")

    def __init__(self, owner: Step, arc: Arc) -> None:
        self.step, self.delay = arc.step, arc.delay
        self.test = guard_test(arc.when)
        self.args = prepare(arc.args) if arc.args else None
        self.sees_failure = isinstance(arc.when, str) and any(
            sees_failure(owner.name, read) for read in parse(arc.when).reads
        )


def sees_failure(step: str, read: Read) -> bool:
    """Only a guard that reads the event or this step's own end can match after a failure (S3)."""
    path = read.path
    return (
        path[0] == "event"
        or path[:2] == (step, "status")
        or path[:2] == (step, "error")
        or (path[:2] == ("steps", step) and path[2:3] in (("status",), ("error",)))
    )


GIVES_HANDLES = ("secrets", "playbook")  # Kinds whose results may have handles of secrets in them


class StepPlan:
    """A step with everything its decisions need."""

    def __init__(self, step: Step, order: int, after_call: CompileAfterCall) -> None:
        self.after_call = after_call(step) if step.after_call is not None else None
        self.step, self.name, self.order = step, step.name, order
        self.arcs = tuple(ArcPlan(step, arc) for arc in step.router.arcs)
        self.inclusive = step.router.mode == "inclusive"
        self.joins = step.join == "all"
        self.admit = tuple((guard_test(rule.when), rule.allow) for rule in step.admit.rules) if step.admit else ()
        self.collection = prepare(step.loop.collection) if step.loop else None
        self.timeout: float | None = step.spec.get("timeout")
        self.timers: dict[str, float] = step.spec.get("timers", {})
        self.labels = tuple(task.label for task in step.tasks)
        self.tasks = {task.label: task for task in step.tasks}
        loop = step.loop
        self.lanes = 1 if loop is None or loop.mode == "sequential" else loop.max_in_flight or 10
        self.local = loop is not None and loop.exec == "local"  # Whether one worker keeps all items of its loop
        self.pool: str | None = step.spec.get("pool")
        self.iterators = dict(_iterators(step.tasks, ""))
        for name, chain in step.after_call.chains.items() if step.after_call else ():
            self.iterators |= _iterators([link for link in chain if isinstance(link, Task)], f"{name}/")
        """Iterator tasks by their labels (`each`, `each/inner`), and whether their items run in parallel."""
        self.writes = bool(self.iterators) or any(
            rule.then.set_ctx or rule.then.set_iter for _, task in step.every_task for rule in task.policy or ()
        )
        """Whether outcomes of its tasks may change ctx or iter."""
        self.gives_handles = any(task.kind in GIVES_HANDLES for _, task in step.every_task)
        """Whether results of its tasks may contain handles of secrets."""
        self.reads = _steps_read(step, self.after_call.templates if self.after_call is not None else [])
        """Other steps whose results its tasks read; None if that cannot be known beforehand."""

    def targets(self, names: Iterable[str]) -> Iterator[str]:
        """The steps it may lead to; a target that is computed may be any of `names`."""
        yield from (arc.step for arc in self.arcs)
        for chain in self.step.after_call.chains.values() if self.step.after_call else ():
            for link in chain:
                for arc in link.to if isinstance(link, Goto) else ():
                    yield from (arc.step,) if parse(arc.step).is_constant else names


def _iterators(tasks: Iterable[Task], prefix: str) -> Iterator[tuple[str, bool]]:
    for task in tasks:
        if task.body:
            yield prefix + task.label, task.spec.get("mode") == "parallel"
            yield from _iterators(task.body, f"{prefix}{task.label}/")


def _steps_read(step: Step, templates: list[Any]) -> frozenset[str] | None:
    """Names that may be steps: what follows `steps`, and every bare name. None if a template reads all steps."""
    links = [link for chain in step.after_call.chains.values() for link in chain] if step.after_call else []
    values = [*templates, *([arc.step, arc.args] for link in links if isinstance(link, Goto) for arc in link.to)]
    for _, task in step.every_task:
        values += [{key: value for key, value in task.inputs.items() if key != "code"}, task.args]
        values += [task.poll.until] if task.poll is not None else []
        for rule in task.policy or ():
            values += [rule.when, rule.then.delay, rule.then.set_iter, rule.then.set_ctx]
    names: set[str] = set()
    try:
        for read in _reads(values):
            if read.path[0] != "steps":
                names.add(str(read.path[0]))
            elif len(read.path) == 1 or not isinstance(read.path[1], str):
                return None
            else:
                names.add(read.path[1])
    except TemplateError:  # braces in a comment of SQL, which is never rendered
        return None
    return frozenset(names)


def _reads(value: Any) -> Iterator[Read]:
    if isinstance(value, str):
        yield from parse(value).reads
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        yield from _reads(item)


def canonical_only(step: Step) -> NoReturn:
    raise TypeError(f"step {step.name!r} has an `after_call`, which only the classic dialect supports")


class Net:
    """The whole playbook, ready to run. Immutable; one serves all executions of a digest."""

    def __init__(self, playbook: Playbook, after_call: CompileAfterCall = canonical_only) -> None:
        """`after_call` compiles what steps of another dialect do after their call."""
        self.playbook = playbook
        self.steps = {step.name: StepPlan(step, i, after_call) for i, step in enumerate(playbook.steps)}
        self.output = prepare(playbook.executor.output) if playbook.executor.output is not None else None
        self.competing_steps = CompetingSteps(self.steps)


class CompetingSteps(dict[str, frozenset[str]]):
    """For each joining step, the steps from which a token could still come to it, not passing through it.

    Computed on first use: for a net with thousands of joins all of it would take gigabytes.
    """

    def __init__(self, steps: Mapping[str, StepPlan]) -> None:
        super().__init__()
        self._steps = steps

    def __missing__(self, join: str) -> frozenset[str]:
        if len(self) >= MAX_CACHED_JOINS:
            self.clear()
        plan = self._steps.get(join)
        self[join] = self._before(join) if plan is not None and plan.joins else frozenset()
        return self[join]

    def _before(self, join: str) -> frozenset[str]:
        before: set[str] = set()
        remaining = [join]
        while remaining:
            for source in self._sources.get(remaining.pop(), ()):
                if source not in before and source != join:
                    before.add(source)
                    remaining.append(source)
        return frozenset(before)

    @cached_property
    def _sources(self) -> dict[str, list[str]]:
        """The steps that lead to each step."""
        sources: dict[str, list[str]] = {}
        for name, plan in self._steps.items():
            for target in plan.targets(self._steps):
                sources.setdefault(target, []).append(name)
        return sources


def guard_test(guard: Guard | None) -> Test:
    """The guard as a function of a scope; None (an `else`) always holds."""
    if guard is None or guard is True:
        return lambda scope: True
    if guard is False:
        return lambda scope: False
    return parse(guard).test
