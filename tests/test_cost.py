"""The work that noetl does for a step, an item, a run and a report does not grow unnoticed."""

from __future__ import annotations

from bench import cost


def test_no_count_grew_by_more_than_three_percent() -> None:
    grown = list(cost.grown(cost.stored(), cost.measure()))
    assert not grown, "\n".join(
        [*grown, "", "Run `make cost` to accept the counts, and name the reason in the message of the commit."]
    )


def test_growth_beyond_the_limit_is_reported() -> None:
    stored = {"python": cost.python(), "counts": {"step": {"fsyncs": 1.0, "c_calls": 100.0}}}
    assert list(cost.grown(stored, {"step": {"fsyncs": 1.03, "c_calls": 103.0}})) == []
    (message,) = cost.grown(stored, {"step": {"fsyncs": 1.0, "c_calls": 104.0}})
    assert message == "step: c_calls grew from 100.0 to 104.0 (+4.0%)"


def test_counts_of_the_standard_library_are_compared_on_the_same_python_only() -> None:
    stored = {"python": "3.0", "counts": {"step": {"fsyncs": 1.0, "python_calls": 100.0}}}
    (message,) = cost.grown(stored, {"step": {"fsyncs": 2.0, "python_calls": 200.0}})
    assert message.startswith("step: fsyncs")


def test_a_count_without_a_limit_is_reported() -> None:
    stored = {"python": cost.python(), "counts": {}}
    assert list(cost.grown(stored, {"step": {"fsyncs": 1.0}})) == ["step: fsyncs is not in bench/cost.json"]
