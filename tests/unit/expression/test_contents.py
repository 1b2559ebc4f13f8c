"""Templates look into stored values that the scope carries, wherever a reference stands, and need those it lacks."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.expression import CONTENTS_KEY, parse, render
from noetl.reference import Need, Reference

ROWS, NAME = Reference("db", "rows", 9, ""), Reference("db", "name", 9, "")
CONTENTS = {"rows": [{"id": 2, "tags": ["b"]}, {"id": 1, "tags": []}], "name": "Ada"}
SCOPE: dict[str, Any] = {"rows": ROWS, "name": NAME, "both": [ROWS, NAME], "map": {"rows": ROWS}, "n": 1, "key": "name"}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        *[("rows[0].id", 2), ("map.rows[n].id", 1), ("both[1] ~ '!'", "Ada!"), ("name == 'Ada'", True)],
        *[
            ("map == {'rows': rows}", True),
            ("[map] == [{'rows': rows}]", True),
            ("rows in both", True),
            ("'d' in name", True),
        ],
        *[("name < 'B'", True), ("[name] < ['B']", True), ("both[0] is sequence", True), ("rows is in both", True)],
        *[("rows | map(attribute='id') | sort", [1, 2]), ("rows | sum(attribute='id')", 3), ("both[1:] | join", "Ada")],
        *[("both | map('length') | list", [2, 3]), ("both | last", NAME), ("rows | selectattr('tags') | length", 1)],
        *[("map | tojson", '{"rows": [{"id": 2, "tags": ["b"]}, {"id": 1, "tags": []}]}'), ("both[1] | upper", "ADA")],
        *[
            ("'%s' | format(name)", "Ada"),
            ("'{}'.format(name)", "Ada"),
            ("map.items() | length", 1),
            ("rows[1:][0].id", 1),
        ],
        *[
            ("both | unique | length", 2),
            ("both.index(rows)", 0),
            ("{'Ada': 1}[name]", 1),
            ("rows | first | length", 2),
        ],
    ],
)
def test_content_is_read_from_the_scope(expression: str, expected: Any) -> None:
    template = parse("{{ " + expression + " }}")
    assert template.evaluate({**SCOPE, CONTENTS_KEY: CONTENTS}) == expected
    if expression != "both | last":
        with pytest.raises(Need):
            template.evaluate(SCOPE)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{% for row in rows %}{{ row.id }}{% endfor %}", "21"),
        ("{% for a, b in [both] %}{{ a[0].id }}{{ b }}{% endfor %}", "2Ada"),
        ("{% set x = both %}{{ x[0][1].id }} {{ both[1] }}", "1 Ada"),
    ],
)
def test_statements_read_content_too(source: str, expected: str) -> None:
    assert parse(source).evaluate({**SCOPE, CONTENTS_KEY: CONTENTS}) == expected


def test_a_reference_that_is_only_passed_on_needs_no_content() -> None:
    assert render({"a": "{{ rows }}", "b": ["{{ map.rows }}"]}, SCOPE) == {"a": ROWS, "b": [ROWS]}


def test_evaluations_with_other_contents_do_not_meet() -> None:
    template, inner = parse("{{ name ~ n }}"), parse("{{ name }}{{ n }}")
    for name in ("Ada", "Bob"):
        assert template.evaluate({**SCOPE, CONTENTS_KEY: {"name": name}}) == f"{name}1"
        with pytest.raises(Need):
            inner.evaluate({**SCOPE, CONTENTS_KEY: {}})
