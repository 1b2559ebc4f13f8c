"""A table of cases as one test, which fails with a list of the rows that do not hold.

    @for_each("text", ["a", "b"])
    def test_a_text_is_read(text: str) -> None: ...

It takes what `pytest.mark.parametrize` takes. Use it for long tables of quick rows: as a test of its own, a row costs
more than what it checks. Fixtures are shared by all rows.

    @pytest.mark.parametrize("net", representatives(NETS, "a chain", "a comb", part="fuzz"))
    def test_a_net_is_checked(net: str) -> None: ...

Use this for tables of expensive rows that resemble each other.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from typing import Any

import pytest

SHOWN_ROWS = 20
SHOWN_CHARACTERS = 200


def for_each(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`names` is a parameter, or a tuple of them; then a row has as many values."""
    parameters = (names,) if isinstance(names, str) else names
    table = [(row,) if isinstance(names, str) else row for row in rows]
    assert table, "a table without rows holds whatever the code does"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def all_rows(*args: Any, **fixtures: Any) -> None:
            failures = []
            for row in table:
                try:
                    test(*args, **fixtures, **dict(zip(parameters, row, strict=True)))
                except Exception as error:  # whatever it is, the other rows are tried too
                    failures.append(_failure(row, error))
            if failures:  # not `assert`, whose message pytest indents if this file is one of its arguments
                shown = "\n".join(failures[:SHOWN_ROWS])
                raise AssertionError(f"{len(failures)} of {len(table)} rows do not hold:\n{shown}")

        kept = [one for name, one in signature(test).parameters.items() if name not in parameters]
        all_rows.__signature__ = signature(test).replace(parameters=kept)  # type: ignore[attr-defined]
        return all_rows

    return decorate


def _failure(row: tuple[Any, ...], error: Exception) -> str:
    values = ", ".join(repr(value)[:SHOWN_CHARACTERS] for value in row)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{values}: {place.filename}:{place.lineno}: {type(error).__name__}: {error}"


def representatives(rows: Mapping[str, Any], *names: str, part: str) -> list[Any]:
    """Every row as a parameter of its name; those that are not in `names` run in this part of `make soak`."""
    assert rows.keys() >= set(names), "a representative that is not in the table"
    soak = pytest.mark.slow(part=part)
    return [pytest.param(row, id=name, marks=() if name in names else soak) for name, row in rows.items()]
