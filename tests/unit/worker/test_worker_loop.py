"""A worker's time at work: it claims, and when it is told to end it finishes what it can and hands back the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.servers.patience import PATIENCE_SECONDS

from noetl.clock import SystemClock
from noetl.dsl.compile import load
from noetl.engine.commands import Claim, Report
from noetl.engine.events import TaskDone
from noetl.errors import AuthError, NoetlError, StoreError
from noetl.tools.registry import KINDS
from noetl.worker.playbook_cache import File, RunnablePlaybook
from noetl.worker.work import Work
from noetl.worker.worker import Worker
from noetl.worker.worker_loop import WorkerLoop

TEXT = b"""\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: one, path: tests/one}
workflow:
  - step: quick
    tool: [{a: {kind: noop, result: 1}}]
  - step: slow
    tool:
      - first: {kind: shell, cmds: ["echo running; sleep 0.4"]}
      - second: {kind: noop, result: done}
  - step: large
    tool: [{c: {kind: noop, result: "{{ 'x' * 99_900 }}"}}]
  - step: larger
    tool: [{d: {kind: noop, result: "{{ 'x' * 100_000 }}", spec: {policy: {rules: [{else: {then: {do: continue}}}]}}}}]
  - step: endless
    tool: [{b: {kind: shell, cmds: ["sleep 100"]}}]
"""
PLAYBOOK = load("one.yaml", TEXT, KINDS).require()


class Desk:
    """A link that hands out what a test puts on it, and keeps what comes back."""

    most_content: int | None = 100_000

    def __init__(self, *steps: str) -> None:
        self.ready = [work(step, fence) for fence, step in enumerate(steps, start=1)]
        self.slots: list[int] = []
        self.reports: list[Report] = []
        self.trouble: Exception | None = None
        self.on_output: Callable[[], None] = lambda: None

    def write_output(self, task: str, stream: str, line: str) -> None:
        self.on_output()

    async def claim(self, command: Claim) -> list[Work]:
        self.slots.append(command.slots)
        if self.trouble is not None:
            trouble, self.trouble = self.trouble, None
            raise trouble
        if not self.ready:
            await asyncio.sleep(1000)
        given, self.ready = self.ready[: command.slots], self.ready[command.slots :]
        return given

    async def report(self, execution: str, report: Report) -> tuple[bool, list[Work]]:
        self.reports.append(report)
        return True, []

    async def holds(self, execution: str, fence: int) -> bool:
        return True

    def paused(self, execution: str) -> bool:
        return False

    def playbook(self, digest: str) -> RunnablePlaybook:
        return RunnablePlaybook(PLAYBOOK, File("", "", {}), 1)

    @property
    def contents(self) -> Any:
        raise AssertionError

    async def credential(self, execution: str, name: str) -> Any:
        raise AssertionError

    def reported(self, fence: int) -> list[str]:
        """What was said of a lease, with `handed back` for that."""
        mine = [report for report in self.reports if report.fence == fence]
        names = [fact.name for one in mine for fact in one.facts]
        return names + ["handed back"] * any(one.hand_back for one in mine)


def work(step: str, fence: int) -> Work:
    return Work("e1", PLAYBOOK.digest, f"{step}#1", step, fence, {}, {}, {}, {}, False, {}, {})


def loop_with(desk: Desk, act: Callable[[WorkerLoop], Any], *, slots: int = 4, grace: float = 30.0) -> list[str]:
    """A worker loop during which something happens; its errors."""
    complaints: list[str] = []

    async def run() -> None:
        loop = WorkerLoop(Worker("w1", desk, KINDS, SystemClock(), slots, desk.write_output), complaints.append, grace)
        running = asyncio.create_task(loop.run())
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await act(loop)
                await running
        finally:
            await KINDS.close()

    asyncio.run(run())
    return complaints


async def until(look: Callable[[], Any]) -> None:
    while not look():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def test_free_slots_are_filled_and_no_more_is_requested() -> None:
    desk = Desk("slow", "slow", "quick")

    async def act(loop: WorkerLoop) -> None:
        await until(lambda: "step.done" in desk.reported(3))
        loop.stop()

    assert loop_with(desk, act, slots=2) == []
    assert desk.slots[0] == 2
    assert max(desk.slots) == 2


def test_running_tasks_finish_and_what_follows_is_handed_back() -> None:
    desk = Desk("slow")

    async def act(loop: WorkerLoop) -> None:
        desk.on_output = loop.stop  # the task runs

    assert loop_with(desk, act) == []
    assert desk.reported(1) == ["task.started", "task.done", "handed back"]


def test_after_the_grace_time_tasks_are_stopped_and_their_leases_handed_back() -> None:
    desk = Desk("endless", "endless")

    async def act(loop: WorkerLoop) -> None:
        await until(lambda: len(loop.worker.leases) == 2)
        loop.stop()

    loop_with(desk, act, grace=0.2)
    assert [desk.reported(fence)[-1] for fence in (1, 2)] == ["handed back"] * 2


def test_told_twice_it_ends_at_once() -> None:
    desk = Desk("endless")

    async def act(loop: WorkerLoop) -> None:
        await until(lambda: loop.worker.leases)
        loop.stop()
        loop.stop()

    loop_with(desk, act, grace=1000)
    assert desk.reported(1)[-1] == "handed back"


def test_a_draining_worker_asks_for_nothing_with_its_last_reports() -> None:
    desk = Desk("slow")

    async def act(loop: WorkerLoop) -> None:
        await until(lambda: loop.worker.leases)
        loop.stop()

    loop_with(desk, act)
    assert [report.claim for report in desk.reports if report.claim is not None] == []


def test_a_worker_that_is_refused_ends_and_says_why() -> None:
    desk = Desk()
    desk.trouble = AuthError("this token was revoked")

    async def act(loop: WorkerLoop) -> None:
        pass

    with pytest.raises(AuthError, match="revoked"):
        loop_with(desk, act)


def test_a_claim_that_goes_wrong_is_complained_about_and_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.worker.worker_loop.RETRY_SECONDS", 0.01)
    desk = Desk("quick")
    desk.trouble = StoreError("the database is away")

    async def act(loop: WorkerLoop) -> None:
        await until(lambda: "step.done" in desk.reported(1))
        loop.stop()

    assert loop_with(desk, act) == ["the database is away"]


def test_a_lease_that_breaks_is_complained_about_and_others_continue() -> None:
    class Broken(Desk):
        async def report(self, execution: str, report: Report) -> tuple[bool, list[Work]]:
            if report.fence == 1:
                raise NoetlError("the report makes no sense")
            return await super().report(execution, report)

    desk = Broken("quick", "quick", "quick")

    async def act(loop: WorkerLoop) -> None:
        await until(lambda: "step.done" in desk.reported(3))
        loop.stop()

    assert loop_with(desk, act, slots=1) == ["a lease was dropped: NoetlError: the report makes no sense"]


def test_a_result_that_no_report_can_bring_is_an_error_of_its_task() -> None:
    desk = Desk("large", "larger")

    async def act(loop: WorkerLoop) -> None:
        await until(lambda: all("step.done" in desk.reported(fence) for fence in (1, 2)))
        loop.stop()

    loop_with(desk, act)
    facts = [fact for report in desk.reports for fact in report.facts if isinstance(fact, TaskDone)]
    kept, refused = sorted((fact.outcome for fact in facts), key=lambda outcome: outcome.status, reverse=True)
    assert kept.error is None
    assert refused.error is not None
    assert (refused.error.kind, refused.error.retryable) == ("too_large", False)
    assert "100,002 bytes, and a server accepts at most 100,000" in refused.error.message
    assert [len(content) for report in desk.reports for _, content in report.blobs] == [99_902]


def test_work_of_a_fence_that_is_granted_again_replaces_the_old_one() -> None:
    """A restored database grants the fences of lost leases again."""
    desk = Desk("endless")

    async def act(loop: WorkerLoop) -> None:
        await until(lambda: loop.worker.leases)
        (old,) = loop.worker.leases.values()
        again = msgspec.structs.replace(work("quick", 1), claim="again")
        loop.worker.take([again])
        await until(lambda: "step.done" in desk.reported(1))
        await until(old.done)
        assert not loop.worker.leases
        assert not loop.worker.reporters
        loop.stop()

    assert loop_with(desk, act) == []
    assert {report.grant for report in desk.reports if "step.done" in [fact.name for fact in report.facts]} == {"again"}
