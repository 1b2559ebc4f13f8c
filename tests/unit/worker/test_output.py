"""Lines of tasks on their way to the server."""

from __future__ import annotations

import pytest

from noetl.clock import SystemClock
from noetl.worker import output
from noetl.worker.output import Output


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Output:
    monkeypatch.setattr(output, "LINES_PER_MESSAGE", 3)
    return Output(SystemClock(), max_lines=5)


def test_lines_are_taken_in_order_a_few_at_a_time(lines: Output) -> None:
    for number in range(5):
        lines.write("e1|start#1/a#1", "stdout", str(number))
    assert [line[4] for line in lines.take()] == ["0", "1", "2"]
    assert lines.waits.is_set()
    assert [line[4] for line in lines.take()] == ["3", "4"]
    assert not lines.waits.is_set()
    assert lines.take() == []


def test_a_line_knows_its_execution_and_task(lines: Output) -> None:
    lines.write("e1|start#1[2]/a#1", "stderr", "no|pe")
    ((execution, task, at, stream, text),) = lines.take()
    assert (execution, task, stream, text) == ("e1", "start#1[2]/a#1", "stderr", "no|pe")
    assert at > 0


def test_lines_that_could_not_be_sent_go_back_to_the_front(lines: Output) -> None:
    for number in range(4):
        lines.write("e1|t", "stdout", str(number))
    lines.put_back(lines.take())
    assert [line[4] for line in lines.take()] == ["0", "1", "2"]


def test_lines_that_find_no_room_are_counted_and_the_gap_is_shown(lines: Output) -> None:
    for number in range(8):
        lines.write("e1|t", "stdout", str(number))
    taken = [*lines.take(), *lines.take()]
    lines.write("e1|t", "stdout", "after")
    assert [line[4] for line in taken] == ["0", "1", "2", "3", "4"]
    gap, after = (line[4] for line in lines.take())
    assert gap == "[3 lines are missing here: they came faster than they could be sent]"
    assert after == "after"
