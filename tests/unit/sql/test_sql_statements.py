"""SingleSlot text of SQL into its statements."""

from __future__ import annotations

import pytest

from noetl.sql import prepare_sql
from noetl.sql.lexing import SNOWFLAKE
from noetl.sql.statements import Sql, Value, statements, write, written


def texts(source: str) -> list[str]:
    return [write(statement, repr) for statement in statements(prepare_sql(source)({"n": 5, "s": "a;b"}))]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", []),
        (" ; ;; -- nothing\n /* ; */ ;", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;", ["SELECT 1"]),
        ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';' ; SELECT E'\\';' ; SELECT \";\"", ["SELECT ';'", "SELECT E'\\';'", 'SELECT ";"']),
        ("SELECT 1 -- a;b\n; SELECT /* ; /* ; */ ; */ 2", ["SELECT 1 -- a;b", "SELECT /* ; /* ; */ ; */ 2"]),
        ("SELECT E'a'\n'b\\';'; SELECT 'a'\n';'", ["SELECT E'a'\n'b\\';'", "SELECT 'a'\n';'"]),
        ("DO $$ a; b $$; DO $x$ ; $$ ; $x$", ["DO $$ a; b $$", "DO $x$ ; $$ ; $x$"]),
        ("CREATE RULE r AS ON UPDATE TO t DO (SELECT 1; SELECT 2); SELECT 3",
         ["CREATE RULE r AS ON UPDATE TO t DO (SELECT 1; SELECT 2)", "SELECT 3"]),
        ("CREATE OR REPLACE FUNCTION f() BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END; SELECT 3",
         ["CREATE OR REPLACE FUNCTION f() BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END",
          "SELECT 3"]),
        ("BEGIN; SELECT 1; END", ["BEGIN", "SELECT 1", "END"]),
        ("SELECT {{ n }}; SELECT {{ s }}, {{ n }}", ["SELECT 5", "SELECT 'a;b', 5"]),
        ("SELECT 'a;", ["SELECT 'a;"]),
        ("SELECT 1 /* ;", ["SELECT 1 /* ;"]),
    ],
)  # fmt: skip
def test_statements_end_at_semicolons_that_are_nobody_elses(source: str, expected: list[str]) -> None:
    assert texts(source) == expected


def test_a_statement_knows_its_line() -> None:
    result = statements(prepare_sql("\nSELECT 1;\n\n  SELECT {{ n }};\n-- c\nSELECT 3")({"n": 5}))
    assert [statement.line for statement in result] == [2, 4, 5]
    assert result[1].parts == ("SELECT ", Value(5))


def test_strings_of_snowflake_have_escapes() -> None:
    assert len(statements(Sql(("SELECT '\\';' ; SELECT 1 // ;",), SNOWFLAKE))) == 2


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [
        ("SELECT nope", 1, 8),
        ("SELECT 1;\n\n  SELECT 2,\n    nope", 4, 5),
        ("SELECT {{ s }}, '{{ s }}', nope", 1, 28),
        ("SELECT {{ n }}+{{ n }}||nope", 1, 25),
        ("SELECT '{{ [n, n] | join(', ') }}', {{ n }}, nope", 1, 46),
        ("SELECT 1,\n{% if n > 9 %}\n  2,\n  3,\n{% endif %}\n  nope", 6, 3),
        ("SELECT\n{% for i in [1, 2, 3, 4] %}\n  {{ i }},\n{% endfor %}\n  nope\nFROM t", 5, 3),
        ("SELECT {{\n n\n}},\n  nope", 4, 3),
        ("SELECT 1 -- {{ s }}\n  , nope", 2, 5),
        ("SELECT {{ 'nope' | raw_sql }}", 1, 1),
    ],
)
def test_a_position_has_its_place_in_the_source(source: str, line: int, column: int) -> None:
    sql = statements(prepare_sql(source)({"n": 5, "s": "a\nb"}))[-1]
    text = written(sql, repr)
    assert text.place(text.text.index("nope") + 1)[:2] == (line, column)


def test_a_value_has_the_place_of_its_template() -> None:
    line = "  ({{ n }}, {{ s }}, {{ n }}, '{{ s }}')"
    text = written(prepare_sql(f"INSERT INTO t VALUES\n{line}")({"n": 5, "s": "x"}), repr)
    begin = text.text.index("(")
    places = [text.place(begin + offset) for offset in (2, 5, 10, 13)]
    assert {place.line for place in places} == {2}
    expected = ["{{ n }}, {{ s }}", "{{ s }}, {{ n }}", "{{ n }}, '", "'{{ s }}')"]
    assert all(line[place.column - 1 :].startswith(text) for place, text in zip(places, expected, strict=True))
