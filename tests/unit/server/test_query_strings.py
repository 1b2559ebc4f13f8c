"""An invalid query parameter is refused with its name, its value and what is expected, never with a pattern."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import msgspec
import pytest

from noetl.server.parameters import QueryString, StatusList, text
from noetl.server.problems import Refused
from noetl.server.query_strings import MAX_PARAMETERS, read_query
from noetl.server.routes.executions import ExecutionQuery


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


class Query(QueryString, frozen=True):
    repeatable = frozenset(["status"])

    limit: Annotated[int, msgspec.Meta(ge=1, le=10, description="Maximum number of items.")] = 5
    strict: bool = False
    status: StatusList = ""
    colour: Annotated[Colour | None, msgspec.Meta(description="Colour.")] = None
    view: Literal["event", "row"] = "event"
    name: Annotated[str, text("Name of the playbook.")] = ""


class Named(QueryString, frozen=True):
    run: str


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("limit=0", "invalid query parameter 'limit': '0'; expected `int` >= 1"),
        ("limit=1.0", "invalid query parameter 'limit': '1.0'"),
        ("limit=many", "invalid query parameter 'limit': 'many'; expected `int`, got `str`"),
        ("strict=2", "invalid query parameter 'strict': '2'; expected `bool`, got `str`"),
        ("colour=blue", "invalid query parameter 'colour': 'blue'; expected one of: red, green"),
        ("view=x", "invalid query parameter 'view': 'x'; expected one of: event, row"),
        ("name=%00", "invalid query parameter 'name': '\\x00'; expected: Name of the playbook"),
        ("limit=1&limit=2", "duplicate query parameter 'limit'"),
        ("size=1", "unknown query parameter 'size'; available: colour, limit, name, status, strict, view"),
        (f"name={'x' * 200}%00", f"invalid query parameter 'name': '{'x' * 100}'; expected: Name of the playbook"),
    ],
)
def test_an_invalid_parameter_is_named_with_what_is_expected(query: str, message: str) -> None:
    with pytest.raises(Refused) as refused:
        read_query(query.encode(), Query)
    assert (refused.value.status, str(refused.value)) == (422, message)


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(Refused, match="invalid query parameter: Object missing required field `run`"):
        read_query(b"", Named)


def test_statuses_and_times_are_explained() -> None:
    with pytest.raises(Refused, match="expected: Statuses, repeated or separated by commas: pending, running, "):
        read_query(b"status=failed&status=bogus", ExecutionQuery)
    with pytest.raises(Refused, match="expected an RFC 3339 time with its offset, such as 2026-01-31T12:00:00Z"):
        read_query(b"since=1h", ExecutionQuery)


@pytest.mark.parametrize("text", [b"name=%ff", b"name=\xff", b"&".join([b"name=a"] * (MAX_PARAMETERS + 1))])
def test_a_query_string_that_cannot_be_read_is_refused(text: bytes) -> None:
    with pytest.raises(Refused) as refused:
        read_query(text, Query)
    assert (refused.value.status, str(refused.value)) == (400, "invalid query string")


def test_lists_may_be_repeated_or_separated_by_commas() -> None:
    assert read_query(b"status=failed&status=waiting,running", Query) == Query(status="failed,waiting,running")
