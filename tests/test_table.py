"""A table is a test for each of its rows."""

from __future__ import annotations

import pytest
from tests.table import for_each, representatives


def test_every_row_is_tried_and_those_that_fail_are_named() -> None:
    tried = []

    @for_each(("number", "text"), [(1, "one"), (2, "two"), (3, "three")])
    def holds_for_two(number: int, text: str) -> None:
        tried.append(text)
        assert number == 2

    with pytest.raises(AssertionError, match="2 of 3 rows do not hold") as caught:
        holds_for_two()
    assert tried == ["one", "two", "three"]
    assert "1, 'one'" in str(caught.value)
    assert "2, 'two'" not in str(caught.value)


def test_an_error_is_a_failure_of_its_row() -> None:
    @for_each("number", [1, 0])
    def divides(number: int) -> None:
        assert 1 / number

    with pytest.raises(AssertionError, match=r"1 of 2 rows do not hold:\n0: .*ZeroDivisionError"):
        divides()


def test_tables_multiply() -> None:
    tried = []

    @for_each("first", "ab")
    @for_each("second", "xy")
    def pair(first: str, second: str) -> None:
        tried.append(first + second)

    pair()
    assert tried == ["ax", "ay", "bx", "by"]


@for_each("number", [1, 2])
def test_fixtures_are_handed_on(number: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert tmp_path_factory.getbasetemp().is_dir()
    assert number


def test_an_empty_table_is_refused() -> None:
    with pytest.raises(AssertionError, match="without rows"):
        for_each("number", [])


def test_rows_that_represent_a_table_run_by_default_and_the_others_in_the_soak() -> None:
    first, second = representatives({"a": 1, "b": 2}, "b", part="fuzz")
    assert (first.id, first.values, [mark.kwargs for mark in first.marks]) == ("a", (1,), [{"part": "fuzz"}])
    assert (second.id, second.values, second.marks) == ("b", (2,), ())


def test_a_representative_that_is_not_in_its_table_is_refused() -> None:
    with pytest.raises(AssertionError, match="not in the table"):
        representatives({"a": 1}, "b", part="fuzz")
