"""Random nets with cycles, forks and joins, driven through the pure core in random order.

A join is checked against an oracle that searches the net anew at every event: it fires exactly when at least one token
waits and nothing alive elsewhere can still reach it, or when everything else is quiet.
"""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from noetl.engine import events as e
from noetl.engine.commands import Cancel, Claim, Command, Lost, Report, Start, TimerDue
from noetl.engine.decide import decide
from noetl.engine.decision import Decision
from noetl.engine.evolve import evolve
from noetl.engine.net import Net
from noetl.engine.state import Execution
from noetl.model.identity import step_of
from noetl.model.outcome import Error
from noetl.model.playbook import Arc, Executor, Loop, Playbook, Router, Step, Task
from noetl.store.codec import freeze, thaw

NO_SHRINKING = [Phase.explicit, Phase.reuse, Phase.generate]
"""A failing net is small as it is; shrinking hundreds of choices takes minutes."""
ID = "00000000-0000-7000-8000-000000000002"


@st.composite
def nets(draw: st.DrawFn) -> Net:
    names = [f"s{i}" for i in range(draw(st.integers(1, 7)))]
    steps = []
    for name in names:
        arcs = [
            Arc(
                draw(st.sampled_from(names)),
                draw(st.sampled_from([True, True, False, "{{ event.name == 'step.failed' }}"])),
            )
            for _ in range(draw(st.integers(0, 3)))
        ]
        steps.append(
            Step(
                name,
                join=draw(st.sampled_from(["any", "all", "all"])),
                loop=Loop([1, 2, 3], "item", mode="parallel", max_in_flight=2)
                if draw(st.integers(0, 5)) == 0
                else None,
                tasks=(Task("t", "noop"),) if draw(st.booleans()) else (),
                router=Router(tuple(arcs), draw(st.sampled_from(["exclusive", "inclusive"]))),
            )
        )
    executor = Executor(max_step_runs=25, on_failure=draw(st.sampled_from(["stop", "finish"])))
    return Net(Playbook("p", "p", tuple(steps), names[0], executor=executor))


class Driver:
    """Plays the worker: reports in whatever order it is told, and checks every event as it comes."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self.state = Execution(ID, net, "digest")
        self.log: list[tuple[e.Event, float]] = []
        self.now = 0.0
        self.work: list[e.StepStarted | e.StepRegranted] = []

    def do(self, command: Command) -> list[e.Event]:
        self.now += 1.0
        before = fold(self.net, self.log)
        turn = Decision(self.state, self.now)
        decide(turn, command)
        for event in turn.events:
            before = thaw(freeze(before), self.net)  # every state survives being a snapshot
            check_join(before, event)
            evolve(before, event, self.now)
            self.log.append((event, self.now))
        grants = [event for event in turn.events if isinstance(event, e.StepStarted | e.StepRegranted)]
        self.work = [grant for grant in [*self.work, *grants] if grant.fence in self.state.leases]
        if "more" in self.state.timers:
            self.do(TimerDue("more"))
        return turn.events

    def facts(self, grant: Any, fails: bool) -> tuple[e.Event, ...]:
        error = Error("test", "asked to fail")
        if grant.items is None:
            return (e.StepFailed(grant.run, error, "t", 1) if fails else e.StepDone(grant.run, 1),)
        first = self.state.runs[grant.run].loop.lanes[grant.fence][0]  # type: ignore[union-attr]
        end = e.IterationFailed(grant.run, first, error) if fails else e.IterationDone(grant.run, first, first)
        return (e.IterationStarted(grant.run, first), end)

    def report(self, grant: Any, fails: bool) -> Report:
        lease = self.state.leases.get(grant.fence)
        return Report(grant.fence, self.facts(grant, fails), lease.facts if lease else 0)


def fold(net: Net, log: list[tuple[e.Event, float]]) -> Execution:
    state = Execution(ID, net, "digest")
    for event, at in log:
        evolve(state, event, at)
    return state


def check_join(state: Execution, event: e.Event) -> None:
    """The oracle: search the net from everything that is alive, not going through the join."""
    if not isinstance(event, e.StepScheduled) or not event.tokens:
        return
    step = step_of(event.run)
    if not state.net.steps[step].joins:
        assert len(event.tokens) == 1
        return
    alive = [token.step for token in state.tokens.values()] + [run.step for run in state.runs.values()]
    alive += [step_of(name) for name in state.ended]
    can_reach = {name for name in alive if name != step and reaches(state, name, step)}
    waiting = {token.id for token in state.tokens.values() if token.step == step}
    assert set(event.tokens) == waiting
    assert not can_reach or is_quiet(state)


def reaches(state: Execution, start: str, goal: str) -> bool:
    seen, todo = {start}, [start]
    while todo:
        for arc in state.net.steps[todo.pop()].arcs:
            if arc.step == goal:
                return True
            if arc.step not in seen:
                seen.add(arc.step)
                todo.append(arc.step)
    return False


def is_quiet(state: Execution) -> bool:
    """Only joins wait: nothing runs and no token is on its way elsewhere."""
    return not state.runs and not state.ended and all(state.net.steps[t.step].joins for t in state.tokens.values())


@settings(max_examples=300, deadline=None, phases=NO_SHRINKING)
@given(nets(), st.data())
def test_every_net_ends_and_replay_gives_the_live_state(net: Net, data: st.DataObject) -> None:
    driver = Driver(net)
    driver.do(Start())
    for _ in range(400):
        if driver.state.over:
            break
        driver.do(Claim("w", data.draw(st.integers(1, 3))))
        if not driver.work:
            continue
        grant = data.draw(st.sampled_from(driver.work))
        match data.draw(st.integers(0, 12)):
            case 0:
                driver.do(Lost(grant.fence))
            case 1:
                driver.do(Report(grant.fence + 1000, driver.facts(grant, False)))  # a void lease changes nothing
            case 2 if data.draw(st.integers(0, 5)) == 0:
                driver.do(Cancel("asked"))
            case choice:
                report = driver.report(grant, choice == 3)
                driver.do(report)
                if choice > 9:  # the answer got lost, and the worker tells it again
                    before = len(driver.log)
                    driver.do(report)
                    assert len(driver.log) == before
                driver.do(Claim("w", 1))
    assert driver.state.over
    check_end(driver)


def check_end(driver: Driver) -> None:
    names = [event.name for event, _ in driver.log]
    assert names.count("playbook.processed") == 1
    assert names[-1] == "playbook.processed"
    folded = fold(driver.net, driver.log)
    for state in (folded, driver.state):
        state.changed = state.deliverable = False
    assert folded == driver.state
    assert thaw(freeze(folded), driver.net) == folded
    scheduled = [event.run for event, _ in driver.log if isinstance(event, e.StepScheduled)]
    assert len(scheduled) == len(set(scheduled))
    taken = [number for event, _ in driver.log if isinstance(event, e.StepScheduled) for number in event.tokens]
    assert len(taken) == len(set(taken))
    ended = [event.run for event, _ in driver.log if isinstance(event, e.StepDone | e.StepFailed | e.LoopDone)]
    assert len(ended) == len(set(ended))


@settings(max_examples=100, deadline=None, phases=NO_SHRINKING)
@given(nets(), st.data())
def test_any_prefix_of_a_log_folds_and_continues(net: Net, data: st.DataObject) -> None:
    driver = Driver(net)
    driver.do(Start())
    for _ in range(data.draw(st.integers(0, 30))):
        driver.do(Claim("w", 2))
        if not driver.work or driver.state.over:
            break
        grant = data.draw(st.sampled_from(driver.work))
        driver.do(driver.report(grant, data.draw(st.integers(0, 9)) == 0))
    again = Driver(net)
    again.log = list(driver.log)
    again.state = fold(net, driver.log)
    again.now = driver.now
    for fence in list(again.state.leases):
        again.do(Lost(fence))
    for _ in range(400):
        if again.state.over:
            break
        again.do(Claim("w", 2))
        for grant in list(again.work):
            if grant.fence in again.state.leases:
                again.do(again.report(grant, False))
    assert again.state.over
    check_end(again)
