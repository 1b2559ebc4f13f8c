"""`exec: local`: one worker keeps all items of a loop."""

from __future__ import annotations

import pytest
from story import EXECUTION, HEAD, run

from noetl.dsl.compile import load
from noetl.engine.commands import Claim, Command, Lost, Report, Start
from noetl.engine.decide import decide
from noetl.engine.decision import Decision
from noetl.engine.events import IterationDone, IterationStarted, StepStarted
from noetl.engine.net import Net
from noetl.engine.state import Execution
from noetl.tools.registry import KINDS


def step(mode: str, items: int, policy: str = ", policy: {exec: local}") -> str:
    loop = f"{{in: '{{{{ range({items}) | list }}}}', iterator: n, spec: {{mode: {mode}{policy}}}}}"
    return f"- {{step: each, loop: {loop}, tool: {{kind: noop, result: '{{{{ iter.n * 2 }}}}'}}}}"


class Told:
    """An execution of a loop over ten items, four of them at a time, and what workers are given of it."""

    def __init__(
        self, mode: str = "parallel, max_in_flight: 4", head: str = "", policy: str = ", policy: {exec: local}"
    ) -> None:
        text = f"{HEAD}{head}workflow:\n  {step(mode, 10, policy)}"
        playbook = load("local.yaml", text, KINDS).require()
        self.state = Execution(EXECUTION, Net(playbook), playbook.digest)
        self.given: list[StepStarted] = []
        self.tell(Start())

    def tell(self, command: Command) -> None:
        turn = Decision(self.state, 0.0)
        decide(turn, command)
        self.given += [event for event in turn.events if isinstance(event, StepStarted)]

    def claim(self, worker: str, slots: int) -> list[tuple[int, int] | None]:
        before = len(self.given)
        self.tell(Claim(worker, slots))
        return [event.items for event in self.given[before:]]


def test_the_slots_of_one_worker_share_all_items() -> None:
    told = Told()
    assert told.claim("a", 16) == [(0, 3), (3, 6), (6, 8), (8, 10)]
    assert told.claim("b", 16) == []
    assert told.claim("a", 16) == []


@pytest.mark.parametrize(("slots", "lanes"), [(1, [(0, 10)]), (3, [(0, 4), (4, 7), (7, 10)])])
def test_a_worker_with_few_slots_keeps_them_all_too(slots: int, lanes: list[tuple[int, int]]) -> None:
    told = Told()
    assert told.claim("a", slots) == lanes
    assert told.claim("b", 16) == []


@pytest.mark.parametrize("key", ["profile", "kind"])
def test_a_profile_of_local_keeps_the_items_of_a_loop_with_one_worker(key: str) -> None:
    local = Told(head=f"executor: {{{key}: local}}\n", policy="")
    assert local.claim("a", 2) == [(0, 5), (5, 10)]
    assert local.claim("b", 2) == []
    distributed = Told(head=f"executor: {{{key}: distributed}}\n", policy="")
    assert [len(distributed.claim(worker, 2)) for worker in ("a", "b")] == [2, 2]
    overruled = Told(head=f"executor: {{{key}: local}}\n", policy=", policy: {exec: distributed}")
    assert [len(overruled.claim(worker, 2)) for worker in ("a", "b")] == [2, 2]


def test_in_order_it_is_one_lane() -> None:
    assert Told("sequential").claim("a", 16) == [(0, 10)]


def test_what_a_lost_worker_had_goes_to_one_worker_again() -> None:
    told = Told()
    told.claim("a", 2)
    run = told.given[0].run
    told.tell(Report(told.given[0].fence, (IterationStarted(run, 0), IterationDone(run, 0))))
    told.tell(Lost(told.given[0].fence))
    assert told.claim("b", 16) == [], "the other lane is still with the first worker"
    told.tell(Lost(told.given[1].fence))
    told.tell(Claim("c", 16))
    leases = told.state.leases.values()
    assert {lease.worker for lease in leases} == {"c"}
    assert told.state.runs[run].loop is not None
    assert not told.state.ready
    assert sorted(told.state.runs[run].loop.lanes.values())[0][0] == 1


@pytest.mark.parametrize("mode", ["sequential", "parallel, max_in_flight: 3"])
def test_it_comes_to_the_same_end(mode: str) -> None:
    end = run(step(mode, 50))
    assert end.state.result == [n * 2 for n in range(50)]
    lanes = [event.items for event in end.of("step.started")]
    assert len(lanes) == (1 if mode == "sequential" else 3)
