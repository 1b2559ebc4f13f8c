"""Whatever the data is, the statement stays the one that was written."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.errors import TemplateError
from noetl.sql import prepare_sql
from noetl.sql.lexing import SNOWFLAKE, STANDARD, SqlDialect, tokens
from noetl.sql.statements import Identifier, InList, Sql, Value, statements, write

NASTY = st.sampled_from(
    ["'", '"', "''", "\\", "\\'", "$$", "--", "/*", "*/", ";", "{{", "}}", "{%", "\n", "$1", "%s", "?", ":a"]
)
DATA = st.lists(NASTY | st.text(max_size=4), max_size=8).map("".join)
NAMES = DATA.filter(lambda text: bool(text) and "\0" not in text)

PLACES = [
    "{{ a }}",
    "'{{ a }}'",
    "'%{{ a }}%'",
    "E'\\n{{ a }}'",
    "'{{ a }}''{{ b }}'",
    "({{ a }}, {{ b }})",
    "f({{ a }})",
    "x IN ({{ a }})",
    "x NOT IN {{ b }}",
    "x IN ({{ [a, b] }})",
    '"{{ a }}"',
    "{{ [a] | ident }}",
    '"x_{{ a }}""{{ b }}"',
    "{{ {'k': a} }}",
    "{{ [a, b] }}",
    "-{{ a }}",
    "interval '{{ a }}'",
    "{% if n %}{{ a }}{% else %}{{ b }}{% endif %}",
    "{% for i in [a, b] %}{{ i }},{% endfor %} 1",
    "{{ 'y' | raw_sql }} = {{ a }}",
]
TEXTS = [
    " = ",
    ", ",
    " AND ",
    " + ",
    " -- {{ a }} '\n, ",
    ' /* {{ a }} " /* */ */ || ',
    " || 'it''s' || ",
    ' || "q""x" || ',
    " || $$ body; ' $$ || ",
    "; SELECT ",
    " OR E'\\'' || ",
]
SHAPES = st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(TEXTS)), min_size=1, max_size=6).map(
    lambda pairs: "SELECT " + "".join(place + text for place, text in pairs) + "1"
)


def literal(value: Any) -> str:
    """A value as a token of its own; containers as calls, so that their content shows in the tokens."""
    if isinstance(value, list):
        return f"f({', '.join(map(literal, value))})"
    if isinstance(value, dict):
        return literal([item for pair in value.items() for item in pair])
    return "'" + value.replace("'", "''") + "'"


def shape(sql: Sql) -> list[Any]:
    """What the server sees, its data aside."""
    text = write(sql, literal)
    loud = [token for token in tokens(text, sql.dialect) if not token.insignificant]
    return [token.kind if token.kind in ("string", "name") else text[token.start : token.end] for token in loud]


@settings(deadline=None)
@given(SHAPES, NAMES, NAMES)
def test_the_tokens_of_a_statement_do_not_depend_on_the_data(source: str, a: str, b: str) -> None:
    bind = prepare_sql(source)
    plain, result = bind({"a": "p", "b": "q", "n": 1}), bind({"a": a, "b": b, "n": 1})
    assert shape(result) == shape(plain)
    assert [part for part in result.parts if isinstance(part, str)] == [p for p in plain.parts if isinstance(p, str)]
    assert list(map(len, map(shape, statements(result)))) == list(map(len, map(shape, statements(plain))))


@settings(deadline=None)
@given(SHAPES, NAMES, NAMES)
def test_the_data_arrives_as_it_is(source: str, a: str, b: str) -> None:
    def data(sql: Sql) -> list[Any]:
        return [part for part in sql.parts if not isinstance(part, str)]

    first, second = "\ue001", "\ue002"
    for marked, result in zip(
        data(prepare_sql(source)({"a": first, "b": second, "n": 1})),
        data(prepare_sql(source)({"a": a, "b": b, "n": 1})),
        strict=True,
    ):
        assert type(result) is type(marked)
        assert result == _replaced(marked, {first: a, second: b})


def _replaced(part: Any, texts: dict[str, str]) -> Any:
    match part:
        case str():
            return "".join(texts.get(character, character) for character in part)
        case Value(value):
            return Value(_replaced(value, texts))
        case Identifier(names):
            return Identifier(tuple(_replaced(name, texts) for name in names))
        case InList(items, negated):
            return InList(tuple(_replaced(item, texts) for item in items), negated)
        case list():
            return [_replaced(item, texts) for item in part]
        case dict():
            return {key: _replaced(item, texts) for key, item in part.items()}
    return part


SOURCES = st.lists(
    st.sampled_from(
        [
            "{{ a }}",
            "{{",
            "}}",
            "{%",
            "%}",
            "{#",
            "#}",
            "{{ a | ident }}",
            "{{ a | raw_sql }}",
            "'",
            '"',
            "$$",
            "$b$",
            "--",
            "/*",
            "*/",
            "\n",
            "E'",
            "\\",
            ";",
            "(",
            ")",
            " IN ",
            "NOT",
            ",",
            "x",
            " ",
            "U&",
            "1",
            ".",
            "//",
            "é",
            "{% if a %}",
            "{% endif %}",
            "BEGIN",
            "END",
            "CREATE FUNCTION",
            "{{- a -}}",
            "\x01",
            "\r\n",
            "$",
        ]
    ),
    max_size=20,
).map("".join)
DIALECTS = st.sampled_from([STANDARD, SNOWFLAKE])


@settings(deadline=None)
@given(SOURCES, DIALECTS, DATA)
def test_any_source_is_bound_or_refused(source: str, dialect: SqlDialect, a: str) -> None:
    try:
        sql = prepare_sql(source, dialect)({"a": a})
    except TemplateError:
        return
    assert len(statements(sql)) <= len(write(sql, literal)) + 1


@settings(deadline=None)
@given(SOURCES, DIALECTS)
def test_tokens_are_the_whole_text(source: str, dialect: SqlDialect) -> None:
    result = list(tokens(source, dialect))
    assert "".join(source[token.start : token.end] for token in result) == source
    assert all(token.end > token.start for token in result)
