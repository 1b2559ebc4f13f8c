"""The progress that a grant carries: that of its own items, however many others wait."""

from __future__ import annotations

from typing import Any

from noetl.engine.state import Progress
from noetl.worker.work import started_items


class NotIterated(dict[int, Any]):
    def __iter__(self) -> Any:
        raise AssertionError("it goes through all items")

    items = __iter__


def test_a_grant_does_not_go_through_the_items_that_wait() -> None:
    waiting = NotIterated({index: {"": Progress()} for index in range(6_000)})
    assert [index for index, _ in started_items(waiting, 5_998, 6_004)] == [5_998, 5_999]


def test_a_long_range_has_the_few_items_that_have_started() -> None:
    started = {index: {"": Progress()} for index in (3, 7, 900)}
    assert [index for index, _ in started_items(started, 5, 800)] == [7]
    assert [index for index, _ in started_items(started, 0, 0)] == []
