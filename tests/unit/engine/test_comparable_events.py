"""Which events of two logs are in the same place, and where the first difference is."""

from __future__ import annotations

from noetl.engine.history.comparable_events import ComparableEvent, comparable, differs, event_pairs


def log(*names: str) -> list[ComparableEvent]:
    """Events by their names; `step.paused:signal` waits for a signal."""
    return [ComparableEvent(seq, content(name)) for seq, name in enumerate(names, start=1)]


def content(name: str) -> dict[str, object]:
    event_type, _, until = name.partition(":")
    return comparable(event_type, "step", {"until": until} if until else {})


def first_difference(a: list[ComparableEvent], b: list[ComparableEvent], *, forks: bool = True) -> list[int | None]:
    """The seqs of both events; none if the logs do not differ."""
    pair = next(filter(differs, event_pairs(a, b, forks=forks)), ())
    return [None if event is None else event.seq for event in pair]


SOURCE = ("requested", "step.scheduled", "step.started", "task.started", "task.done", "step.done")


def test_logs_are_compared_event_by_event() -> None:
    assert first_difference(log(*SOURCE), log(*SOURCE), forks=False) == []
    assert first_difference(log(*SOURCE), log(*SOURCE[:2]), forks=False) == [3, None]
    assert first_difference(log(*SOURCE[:2]), log(*SOURCE), forks=False) == [None, 3]
    assert first_difference(log(*SOURCE), log("requested", "step.started"), forks=False) == [2, 2]


def test_a_fork_that_does_what_its_source_did_does_not_differ() -> None:
    for at in range(1, len(SOURCE)):
        fork = log(*SOURCE[:at], "execution.forked", *SOURCE[at:])
        assert first_difference(log(*SOURCE), fork) == []
        assert first_difference(fork, log(*SOURCE)) == []


def test_work_that_was_under_way_begins_again_in_a_fork_and_does_not_differ() -> None:
    for again in ("step.started", "step.regranted", "task.started", "loop.iteration.started"):
        fork = log(*SOURCE[:4], "execution.forked", again, *SOURCE[4:])
        assert first_difference(log(*SOURCE), fork) == []
    child = log("step.started", "step.paused:child", "step.resumed")
    assert first_difference(child, log("step.started", "step.paused:child", "execution.forked", *CHILD_AGAIN)) == []


CHILD_AGAIN = ("step.started", "task.started", "step.paused:child", "step.resumed")


def test_what_follows_from_a_fork_is_the_first_difference() -> None:
    fork = log(*SOURCE[:4], "execution.forked", "step.started", "task.done", "step.failed")
    assert first_difference(log(*SOURCE), fork) == [6, 8]
    assert first_difference(fork, log(*SOURCE)) == [8, 6]
    assert first_difference(log(*SOURCE), log(*SOURCE[:4], "execution.forked")) == [5, None]
    waits = log(*SOURCE[:4], "execution.forked", "step.paused:signal")
    assert first_difference(log(*SOURCE), waits) == [5, 6]


def test_two_forks_at_the_same_event_differ_where_their_changes_do() -> None:
    a, b = (comparable("execution.forked", "playbook", {"source_id": name, "set_ctx": name}) for name in "ab")
    assert first_difference([ComparableEvent(1, a)], [ComparableEvent(1, b)]) == [1, 1]
    assert first_difference([ComparableEvent(1, a)], [ComparableEvent(1, a)]) == []


def test_forks_at_different_events_are_compared_past_both() -> None:
    a = log(*SOURCE[:2], "execution.forked", *SOURCE[2:])
    b = log(*SOURCE[:5], "execution.forked", "step.failed")
    assert first_difference(a, b) == [7, 7]


def test_times_workers_and_users_do_not_differ() -> None:
    payloads = [{"at": n, "worker": n, "actor": {"kind": "user", "name": str(n)}, "on": 1} for n in (1, 2)]
    a, b = (comparable("next.evaluated", "step", payload) for payload in payloads)
    assert a == b == {"event_type": "next.evaluated", "entity": "step", "on": 1}
