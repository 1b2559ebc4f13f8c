"""Lines of tasks on their way to the server."""

from __future__ import annotations

import pytest

from noetl.clock import SystemClock
from noetl.worker import output
from noetl.worker.output import OutputBuffer


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> OutputBuffer:
    monkeypatch.setattr(output, "LINES_PER_MESSAGE", 3)
    return OutputBuffer(SystemClock(), max_lines=5)


def test_lines_are_taken_in_order_a_few_at_a_time(lines: OutputBuffer) -> None:
    for number in range(5):
        lines.write("e1|start#1/a#1", "stdout", str(number))
    assert [line[4] for line in lines.take()] == ["0", "1", "2"]
    assert lines.waits.is_set()
    assert [line[4] for line in lines.take()] == ["3", "4"]
    assert not lines.waits.is_set()
    assert lines.take() == []


def test_a_line_knows_its_execution_and_task(lines: OutputBuffer) -> None:
    lines.write("e1|start#1[2]/a#1", "stderr", "no|pe")
    ((execution, task, at, stream, text),) = lines.take()
    assert (execution, task, stream, text) == ("e1", "start#1[2]/a#1", "stderr", "no|pe")
    assert at > 0


def test_lines_that_could_not_be_sent_go_back_to_the_front(lines: OutputBuffer) -> None:
    for number in range(4):
        lines.write("e1|t", "stdout", str(number))
    lines.put_back(lines.take())
    assert [line[4] for line in lines.take()] == ["0", "1", "2"]


def test_lines_that_find_no_room_are_counted_and_the_gap_is_shown(lines: OutputBuffer) -> None:
    for number in range(8):
        lines.write("e1|t", "stdout", str(number))
    lines.take()
    lines.write("e1|t", "stdout", "after")
    gap = "[3 lines dropped: the task wrote faster than the worker could send]"
    assert [line[4] for line in (*lines.take(), *lines.take())] == ["3", "4", gap, "after"]


def test_a_gap_is_shown_to_its_task_also_if_no_line_comes_after_it(lines: OutputBuffer) -> None:
    for task in ("e1|a", "e1|a", "e2|b"):
        for number in range(4):
            lines.write(task, "stdout", str(number))
    lines.take()
    end = lines.take()
    assert [line[4] for line in end[:2]] == ["3", "0"]
    gaps = [(line[0], line[1], line[4].partition(" ")[0]) for line in (*end[2:], *lines.take())]
    assert gaps == [("e1", "a", "[3"), ("e2", "b", "[4")]
    assert not lines.waits.is_set()


def test_without_a_limit_no_line_is_dropped() -> None:
    lines = OutputBuffer(SystemClock(), max_lines=None)
    for number in range(output.MAX_LINES + 1):
        lines.write("e1|t", "stdout", str(number))
    taken = []
    while batch := lines.take():
        taken += [line[4] for line in batch]
    assert taken == [str(number) for number in range(output.MAX_LINES + 1)]
