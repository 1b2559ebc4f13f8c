"""What becomes of a schedule: due firings, missed ones, overlaps, pauses, and what is noted of them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.conformance.memory import MemoryStore

from noetl.errors import Conflict, UsageError
from noetl.server.record_views import schedule_view
from noetl.store.triggers import Firing, Schedule
from noetl.triggers import schedules
from noetl.triggers.schedules import ScheduleRequest

NOW = 1_760_000_000.0


def made(now: float = NOW, **more: Any) -> Schedule:
    given = {"path": "p", "every": 10} | more
    return schedules.new_schedule("s", ScheduleRequest(**given), now)


def looked_at(one: Schedule, now: float, *is_open: str) -> Schedule:
    return schedules.decided(one, is_open, now)


def started(one: Schedule, now: float) -> Schedule:
    """The schedule when all that was decided has started."""
    for firing in one.starting:
        one = schedules.settled(one, firing, "", now)
    return one


def dues(firings: tuple[Firing, ...]) -> list[float]:
    return [firing.due - NOW for firing in firings]


def noted(one: Schedule) -> list[tuple[str, float, int]]:
    return [(fired.outcome, fired.due - NOW, fired.count) for fired in one.recent]


# -- making ---------------------------------------------------------------------------------------------------------


def test_a_new_schedule_knows_when_it_fires_next() -> None:
    one = made()
    assert (one.next, one.look, one.status, one.revision) == (NOW + 10, NOW + 10, "active", 1)
    assert made(every=None, at="2030-01-01T00:00Z").next == 1_893_456_000.0
    assert made(paused=True).look is None
    assert made().id != made().id


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"every": None}, "exactly one of"),
        ({"cron": "* * * * *"}, "exactly one of"),
        ({"every": None, "at": "2001-01-01T00:00Z"}, "never fire"),
        ({"timezone": "Mars"}, "time zone"),
        ({"every": "soon"}, "duration"),
    ],
)
def test_what_cannot_be_a_schedule(more: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        made(**more)
    with pytest.raises(UsageError, match="name"):
        schedules.new_schedule("a b", ScheduleRequest(path="p", every=10), NOW)


def test_a_change_of_other_things_does_not_move_the_next_firing() -> None:
    one = made()
    later = schedules.changed(one, ScheduleRequest(path="other", every="10s", overlap="allow"), NOW + 7)
    assert (later.path, later.next, later.id, later.revision) == ("other", NOW + 10, one.id, 2)
    moved = schedules.changed(later, ScheduleRequest(path="other", every=60), NOW + 8)
    assert (moved.next, moved.anchor) == (NOW + 68, NOW + 8)


def test_a_retired_one_shot_can_be_put_again_as_it_was() -> None:
    request = ScheduleRequest(path="p", at="2030-01-01T00:00Z")
    one = schedules.new_schedule("s", request, NOW)
    assert one.next is not None
    fired = started(looked_at(one, one.next + 1), one.next + 1)
    assert (fired.status, fired.next, fired.look) == ("retired", None, None)
    assert schedules.changed(fired, request, one.next + 5).status == "retired"


# -- firing ---------------------------------------------------------------------------------------------------------


def test_nothing_is_decided_before_its_time() -> None:
    one = looked_at(made(), NOW + 9)
    assert (one.starting, one.next) == ((), NOW + 10)


def test_a_firing_is_decided_then_settled() -> None:
    one = looked_at(made(), NOW + 10.3)
    assert dues(one.starting) == [10]
    assert one.running == (one.starting[0].execution(one.id),)
    assert (one.next, one.look) == (NOW + 20, NOW + 10.3 + schedules.START_LEASE_SECONDS)
    after = started(one, NOW + 10.4)
    assert (after.starting, after.look, noted(after)) == ((), NOW + 20, [("started", 10, 1)])
    assert after.recent[-1].execution == one.running[0]


def test_the_id_of_an_execution_follows_from_schedule_and_time() -> None:
    one = made()
    first, again = Firing(NOW + 10).execution(one.id), Firing(NOW + 10).execution(one.id)
    assert first == again
    others = {
        Firing(NOW + 20).execution(one.id),
        Firing(NOW + 10).execution("x"),
        Firing(NOW + 10, "k").execution(one.id),
    }
    assert len({first} | others) == 4
    assert first < Firing(NOW + 20).execution(one.id)


def test_what_a_dead_server_had_decided_is_decided_still() -> None:
    one = looked_at(made(), NOW + 10)
    again = looked_at(one, NOW + 16)
    assert (again.starting, again.running) == (one.starting, one.running)
    overlapped = looked_at(one, NOW + 21)
    assert overlapped.starting == one.starting
    assert noted(overlapped) == [("skipped", 20, 1)]


def test_a_firing_that_could_not_start_is_noted_and_the_next_one_comes() -> None:
    one = looked_at(made(), NOW + 10)
    failed = schedules.settled(one, one.starting[0], "playbook 'p' not found", NOW + 11)
    assert (failed.running, failed.next, failed.look) == ((), NOW + 20, NOW + 20)
    assert noted(failed) == [("failed", 10, 1)]
    assert failed.recent[0].reason == "playbook 'p' not found"
    assert dues(looked_at(failed, NOW + 20).starting) == [20]


def test_the_same_trouble_again_only_counts() -> None:
    one = made()
    for turn in range(1, 60):
        one = looked_at(one, NOW + 10 * turn)
        one = schedules.settled(one, one.starting[0], "gone", NOW + 10 * turn)
    assert noted(one) == [("failed", 590, 59)]


def test_no_more_than_the_latest_are_noted() -> None:
    one = made(overlap="allow")
    for turn in range(1, 60):
        one = started(looked_at(one, NOW + 10 * turn), NOW + 10 * turn)
    assert len(one.recent) == schedules.MAX_RECENT
    assert noted(one)[-1] == ("started", 590, 1)


def test_a_payload_tells_its_firing_unless_it_has_its_own() -> None:
    one = made(payload={"a": 1})
    assert schedules.payload_of(one, Firing(NOW)) == {
        "a": 1,
        "schedule": {"name": "s", "time": "2025-10-09T08:53:20.000Z"},
    }
    assert schedules.payload_of(made(payload={"schedule": 7}), Firing(NOW)) == {"schedule": 7}


# -- missed ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("missed", "expected"), [("skip", [40]), ("once", [40]), ("all", [10, 20, 30, 40])])
def test_firings_that_others_have_overtaken_were_missed(missed: Any, expected: list[float]) -> None:
    one = looked_at(made(missed=missed, overlap="allow"), NOW + 43)
    assert dues(one.starting) == expected
    assert one.next == NOW + 50
    assert sum(fired.count for fired in one.recent) == 4 - len(expected)


@pytest.mark.parametrize(("missed", "expected"), [("skip", []), ("once", [7200]), ("all", [3600, 7200])])
def test_a_firing_that_is_much_too_late_was_missed(missed: Any, expected: list[float]) -> None:
    one = looked_at(made(every=3600, missed=missed, overlap="allow"), NOW + 9000)
    assert dues(one.starting) == expected
    assert one.next == NOW + 10_800
    if not expected:
        assert noted(one) == [("missed", 7200, 2)]


def test_a_little_late_is_not_missed() -> None:
    assert dues(looked_at(made(every=3600, missed="skip"), NOW + 3600 + 59).starting) == [3600]
    assert dues(looked_at(made(every=3600, missed="skip"), NOW + 3600 + 61).starting) == []


def test_no_more_than_a_hundred_are_made_up_for_the_latest() -> None:
    one = looked_at(made(missed="all", overlap="allow", every=1), NOW + 86_400)
    assert len(one.starting) == schedules.MAX_MISSED
    assert dues(one.starting)[-1] == 86_400


@pytest.mark.parametrize(("missed", "status"), [("skip", "retired"), ("once", "active"), ("all", "active")])
def test_a_missed_one_shot(missed: Any, status: str) -> None:
    one = made(every=None, at="2030-01-01T00:00Z", missed=missed)
    assert one.next is not None
    later = looked_at(one, one.next + 5000)
    assert (later.status, later.next) == (status, None)
    assert len(later.starting) == (status == "active")
    assert started(later, one.next + 5001).status == "retired"


# -- overlap --------------------------------------------------------------------------------------------------------


def running(overlap: Any) -> tuple[Schedule, str]:
    one = started(looked_at(made(overlap=overlap), NOW + 10), NOW + 10)
    return one, one.running[0]


def test_skip_leaves_out_what_comes_while_one_is_open() -> None:
    one, first = running("skip")
    second = looked_at(one, NOW + 20, first)
    assert (second.starting, second.running) == ((), (first,))
    assert noted(second)[-1] == ("skipped", 20, 1)
    assert first in second.recent[-1].reason
    third = looked_at(second, NOW + 30)
    assert dues(third.starting) == [30]
    assert third.running == (third.starting[0].execution(one.id),)


def test_queue_lets_one_after_the_other_start() -> None:
    one, first = running("queue")
    one = looked_at(looked_at(one, NOW + 20, first), NOW + 30, first)
    assert (dues(one.queue), one.starting, one.look) == ([20, 30], (), NOW + 31)
    one = looked_at(one, NOW + 31)
    assert (dues(one.starting), dues(one.queue)) == ([20], [30])
    one = looked_at(one, NOW + 37)
    assert (dues(one.starting), dues(one.queue)) == ([20], [30])
    one = looked_at(started(one, NOW + 38), NOW + 38)
    assert (dues(one.starting), dues(one.queue)) == ([30], [])


def test_allow_starts_beside() -> None:
    one, first = running("allow")
    assert dues(looked_at(one, NOW + 20, first).starting) == [20]


def test_missed_ones_in_a_queue_start_one_by_one_and_with_skip_only_the_first() -> None:
    queued = looked_at(made(missed="all", overlap="queue"), NOW + 43)
    assert (dues(queued.starting), dues(queued.queue)) == ([10], [20, 30, 40])
    skipped = looked_at(made(missed="all", overlap="skip"), NOW + 43)
    assert (dues(skipped.starting), noted(skipped)) == ([10], [("skipped", 40, 3)])


def test_a_queue_has_an_end() -> None:
    one, first = running("queue")
    for turn in range(2, 150):
        one = looked_at(one, NOW + 10 * turn, first)
    assert len(one.queue) == schedules.MAX_QUEUED
    assert dues(one.queue)[0] == 20
    assert noted(one)[-1] == ("skipped", 1490, 48)


def test_a_queued_one_shot_is_not_retired_before_it_has_run() -> None:
    one = replace(made(every=None, at="2030-01-01T00:00Z", overlap="queue"), running=("open",))
    assert one.next is not None
    waiting = looked_at(one, one.next, "open")
    assert (waiting.status, len(waiting.queue)) == ("active", 1)
    assert started(looked_at(waiting, one.next + 9), one.next + 9).status == "retired"


# -- people ---------------------------------------------------------------------------------------------------------


def test_a_pause_is_not_made_up_for() -> None:
    one = schedules.paused(made(missed="all"), NOW + 1)
    assert (one.status, one.look) == ("paused", None)
    assert looked_at(one, NOW + 500).starting == ()
    again = schedules.resumed(one, NOW + 501)
    assert (again.status, again.next, again.look) == ("active", NOW + 510, NOW + 510)


def test_to_resume_what_is_not_paused_moves_nothing() -> None:
    one = made()
    assert schedules.resumed(one, NOW + 25).next == one.next


def test_what_was_decided_before_a_pause_still_starts() -> None:
    one = schedules.paused(looked_at(made(), NOW + 10), NOW + 11)
    assert one.look is not None
    assert dues(looked_at(one, NOW + 16).starting) == [10]


def test_a_firing_on_request_obeys_the_policy() -> None:
    firing = Firing(NOW + 12, "key")
    for overlap in ("skip", "queue", "allow"):
        assert schedules.triggered(made(overlap=overlap), firing, (), NOW + 12).starting == (firing,)
    one, first = running("skip")
    with pytest.raises(Conflict, match=first):
        schedules.triggered(one, firing, [first], NOW + 12)
    one, first = running("queue")
    assert schedules.triggered(one, firing, [first], NOW + 12).queue == (firing,)
    one, first = running("allow")
    assert schedules.triggered(one, firing, [first], NOW + 12).starting == (firing,)


def test_a_paused_or_retired_schedule_fires_on_request() -> None:
    firing = Firing(NOW + 12, "key")
    paused = schedules.triggered(schedules.paused(made(), NOW + 1), firing, (), NOW + 12)
    assert (paused.starting, paused.status) == ((firing,), "paused")
    assert paused.look is not None
    after = started(paused, NOW + 12)
    assert (after.status, after.look) == ("paused", None)


def test_trouble_is_noted_and_checked_again() -> None:
    one = schedules.postponed(made(), "there is no time zone 'X'", NOW + 10)
    assert (one.look, one.next, noted(one)) == (NOW + 10 + schedules.POSTPONE_SECONDS, NOW + 10, [("failed", 10, 1)])


def test_it_is_shown_with_its_last_and_next_firing() -> None:
    one = started(looked_at(made(), NOW + 10), NOW + 10)
    store = MemoryStore()
    shown = schedule_view(schedules.refreshed(store, one))
    assert shown.next == "2025-10-09T08:53:40.000Z"
    assert shown.last is not None
    assert (shown.last.due, shown.last.outcome) == ("2025-10-09T08:53:30.000Z", "started")
    assert shown.last.execution_id == one.running[0]
    assert schedule_view(schedules.refreshed(store, schedules.paused(one, NOW + 11))).next is None
