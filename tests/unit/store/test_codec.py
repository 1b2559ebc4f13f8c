"""What is written reads back as what was meant, or is refused with the path of what can't be written."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.engine.events import (
    EVENTS,
    CtxPatched,
    Event,
    ExecutionRequested,
    StepDone,
    StepFailed,
    StepStarted,
    TaskDone,
    TimerArmed,
    TokenEnqueued,
)
from noetl.errors import Unreadable, Unstorable
from noetl.model.identity import TaskId
from noetl.model.outcome import Error, Outcome
from noetl.reference import Reference
from noetl.store.codec import ZERO, chained, decode, encode, rows_of

REFERENCE = Reference("db", "k1", 70_000, "sha256:k1", "list", {"count": 3})


def back(event: Event) -> Event:
    return decode(event.name, encode(event))


def result_of(value: Any) -> Any:
    result = back(StepDone("a#1", value))
    assert isinstance(result, StepDone)
    return result.result


SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
KEYS = st.sampled_from(["$ref", "$$ref", "$$$ref", "$refund", "$$", "$", "ref", "", "$add", "$$other", "a"]) | st.text()
REFERENCES = st.builds(Reference, st.just("db"), st.text(), st.integers(0, 9), st.text(), st.text(), SCALARS)


def anything(*leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.one_of(SCALARS, st.text(), KEYS, *leaves),
        lambda inside: st.lists(inside, max_size=4) | st.dictionaries(KEYS, inside, max_size=4),
        max_leaves=12,
    )


@given(anything(REFERENCES))
def test_any_data_with_references_comes_back_the_same(value: Any) -> None:
    assert result_of(value) == value


@given(anything())
def test_data_never_turns_into_a_reference(value: Any) -> None:
    assert "Reference(" not in repr(result_of({"data": value, "$ref": value})).replace(repr(value), "")


@pytest.mark.parametrize(
    "event",
    [
        ExecutionRequested("d", "p", {"big": REFERENCE}, ("x", "a#1", 2)),
        TokenEnqueued(1, "a", {"list": [REFERENCE, {"deep": REFERENCE}]}),
        TaskDone(TaskId("a#1", "t#1"), 1, Outcome("ok", REFERENCE), "continue", set_ctx=(("k", "=", REFERENCE),)),
        StepFailed("a#1", Error("http", "no", details={"$ref": "mine", "body": REFERENCE}), "t"),
        CtxPatched((("$ref", "$append", {"$ref": {"store": "db"}}),)),
        StepDone("a#1", Reference("db", "k", 1, "c", preview={"$ref": {"$ref": 1}})),
    ],
)
def test_references_live_anywhere_in_an_event(event: Event) -> None:
    assert back(event) == event


def test_a_reference_is_written_as_one_and_data_that_looks_like_one_is_not() -> None:
    assert json.loads(encode(StepDone("a#1", REFERENCE)))["result"] == {
        "$ref": {"store": "db", "key": "k1", "size": 70000, "checksum": "sha256:k1", "schema_hint": "list"}
        | {"preview": {"count": 3}}
    }
    fake = {"$ref": {"store": "db", "key": "k1", "size": 1, "checksum": "c"}}
    assert json.loads(encode(StepDone("a#1", fake)))["result"] == {"$$ref": fake["$ref"]}
    assert result_of(fake) == fake
    assert isinstance(result_of(REFERENCE), Reference)


DEEP: list[Any] = []
for _ in range(5_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, {2}]}, r"step\.done: result\.a\[1\]: a value of type set cannot be stored"),
        ({"a": {"b": b"x"}}, r"result\.a\.b: a value of type bytes"),
        ([float("nan")], r"result\[0\]: the number nan"),
        ({"x": float("-inf")}, r"result\.x: the number -inf"),
        ([0, 2**64], r"result\[1\]: a whole number of more than 64 bits"),
        (-(2**63) - 1, r"result: a whole number of more than 64 bits"),
        ([10**5000], r"result\[0\]: a whole number of more than 64 bits"),
        (["\ud800"], r"result\[0\]: text with half of a surrogate pair"),
        ({"a\udcff": 1}, r"result: text with half of a surrogate pair"),
        ({"a\udcff": {1}}, r"result: text with half of a surrogate pair"),
        ({"a": {1: 2}}, r"result\.a: a map with a key of type int"),
        ({"a": datetime.now(UTC)}, r"result\.a: a value of type datetime"),
        ({"a": Decimal(1)}, r"result\.a: a value of type Decimal"),
        ({"a": object()}, r"result\.a: a value of type object"),
        ({"$ref": {3}}, r"result\.\$ref: a value of type set"),
        (Reference("db", "k", 1, "c", preview={4}), r"result\.preview: a value of type set"),
        (DEEP, "nested too deeply"),
    ],
)
def test_what_cannot_be_stored_is_named(value: Any, message: str) -> None:
    with pytest.raises(Unstorable, match=message):
        encode(StepDone("a#1", value))


def test_a_field_of_the_wrong_type_is_refused_before_it_is_written() -> None:
    with pytest.raises(Unstorable, match=r"step\.done: Expected `str`"):
        encode(StepDone(7, None))  # type: ignore[arg-type]
    with pytest.raises(Unstorable, match=r"timer\.armed: due: the number inf"):
        encode(TimerArmed("t", float("inf")))


def test_numbers_at_the_edge_and_long_text_of_digits_are_fine() -> None:
    for value in (2**64 - 1, -(2**63), 1e300, "1" * 50, 12345678901234567890.0, -0.0):
        assert result_of([value]) == [value]


def test_tuples_are_stored_as_lists() -> None:
    assert result_of((1, (2, 3))) == [1, [2, 3]]


def test_events_without_free_data_are_written_too() -> None:
    event = StepStarted("a#1", 3, "local", (0, 5))
    assert back(event) == event
    with pytest.raises(Unstorable, match=r"step\.started: run: text with half"):
        encode(StepStarted("\ud800", 1))


def test_every_event_is_known_by_its_name() -> None:
    for name, kind in EVENTS.items():
        assert kind.name == name


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("step.done", b"{"),
        ("step.done", b'{"result":1}'),
        ("step.done", b"\xff"),
        ("step.done", b'{"run":"a","result":{"$ref":{"other":1}}}'),
        ("step.done", b'{"run":"a","result":{"$ref":7}}'),
        ("step.invented", b"{}"),
    ],
)
def test_damage_is_reported(name: str, data: bytes) -> None:
    with pytest.raises(Unreadable):
        decode(name, data)


def test_a_changed_row_breaks_the_chain() -> None:
    rows = rows_of([StepDone("a#1", 1), StepDone("b#1", 2), StepDone("c#1", 3)], 5, 1.5, ZERO)
    assert [row.seq for row in rows] == [5, 6, 7]
    assert rows[0].hash == chained(ZERO, "step.done", 1.5, rows[0].data)
    assert rows[1].hash == chained(rows[0].hash, "step.done", 1.5, rows[1].data)
    assert rows[1].hash != chained(rows[0].hash, "step.done", 1.5, rows[1].data + b" ")
    assert rows[1].hash != chained(ZERO, "step.done", 1.5, rows[1].data)


FIRST_USE = """
import sys
from threading import Barrier, Thread
from noetl.engine.net import Net
from noetl.engine.state import Execution
from noetl.store import codec

net = Net.__new__(Net)
data = codec.freeze(Execution("x", net, "d"))
sys.setswitchinterval(1e-5)
together = Barrier(4)

def read() -> None:
    together.wait()
    codec.thaw(data, net)

threads = [Thread(target=read) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads_may_read_the_first_state_at_once() -> None:
    """msgspec may crash a process in which threads prepare the same struct; five processes make a crash likely."""
    processes = [subprocess.Popen([sys.executable, "-c", FIRST_USE]) for _ in range(5)]
    assert [process.wait(60) for process in processes] == [0] * 5
