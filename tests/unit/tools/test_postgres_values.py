"""Values on their way into SQL and into tables, against a real server."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.servers.postgres import postgres_fixture, schema_fixture  # noqa: F401
from tests.servers.postgres_calls import Database, database_fixture  # noqa: F401

from noetl.errors import TemplateFailed

# --- values in statements ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kind", "back"),
    [
        (None, "unknown", None),
        (True, "boolean", True),
        (5, "integer", 5),
        (-5, "integer", -5),
        (2**40, "bigint", 2**40),
        (10**30, "numeric", str(10**30)),
        (-(2**63) - 1, "numeric", str(-(2**63) - 1)),
        (1.5, "numeric", "1.5"),
        (1e-7, "numeric", "0.0000001"),
        (float("nan"), "double precision", "NaN"),
        (float("-inf"), "double precision", "-Infinity"),
        ("x", "unknown", "x"),
        ("", "unknown", ""),
        ({"a": [1, None]}, "jsonb", {"a": [1, None]}),
        ([1, 2], "integer[]", [1, 2]),
        ([1, None], "integer[]", [1, None]),
        ([1, 2.5], "numeric[]", ["1", "2.5"]),
        ([True, False], "boolean[]", [True, False]),
        ([[1, 2], [3, 4]], "integer[]", [[1, 2], [3, 4]]),
        ([b"a"], "bytea[]", [b"a"]),
        ([1, "a"], "jsonb", [1, "a"]),
        ([{"a": 1}], "jsonb", [{"a": 1}]),
        ([[1], [2, 3]], "jsonb", [[1], [2, 3]]),
        (b"\x00\\'", "bytea", b"\x00\\'"),
    ],
)
def test_a_value_has_the_type_that_fits_it(database: Database, value: Any, kind: str, back: Any) -> None:
    (result,) = database.rows("SELECT {{ v }} AS v, pg_typeof({{ v }})::text AS kind", {"v": value})
    assert result == {"v": back, "kind": kind}


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("id = {{ v }}", "7"),
        ("id = {{ v }}", 7),
        ("id = '{{ v }}'", 7),
        ("id IN ({{ v }})", ["7", "8"]),
        ("id IN {{ v }}", [7]),
        ("id IN ({{ v }}, {{ v }})", 7),
        ("id = ANY ({{ v }})", [7, 8]),
        ("id = ANY ({{ v }})", ["7"]),
        ("(id, name) IN ({{ v }})", [[7, "seven"]]),
        ("id NOT IN ({{ v }})", [8, 9]),
        ("id NOT IN ({{ v }})", []),
        ("name NOT IN ({{ v }})", []),
        ("key NOT IN {{ v }}", []),
        ("NOT id IN ({{ v }})", []),
        ("name LIKE '%{{ v }}%'", "eve"),
        ("name LIKE {{ v }} || '%'", "sev"),
        ("born = {{ v }}", "2024-02-29"),
        ("born + interval {{ v }} = date '2024-03-01'", "1 day"),
        ("price = {{ v }}", "12.50"),
        ("price = {{ v }}", 12.5),
        ("price > {{ v }}", -1),
        ("key = {{ v }}", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("key IN ({{ v }})", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
        ("info @> {{ v }}", {"a": 1}),
        ("info ->> {{ v }} = '1'", "a"),
        ("info ? {{ v }}", "a"),
        ("tags @> {{ v }}", ["x"]),
        ("tags = {{ v }}", ["x", 'a"b\\,{}', "NULL"]),
        ("ok = {{ v }}", True),
        ("ok = '{{ v }}'", True),
        ("id % 2 = {{ v }}", 1),
        ("id = -{{ v }}", -7),
        ("{{ v }}::text = '-7'", -7),
        ("name IS NOT DISTINCT FROM {{ v }}", "seven"),
        ("nothing IS NOT DISTINCT FROM {{ v }}", None),
    ],
)
def test_values_meet_columns_of_every_type(database: Database, condition: str, value: Any) -> None:
    database.result(
        """CREATE TABLE t (id int, name text, born date, price numeric, key uuid, info jsonb, tags text[], ok bool,
                           nothing text);
           INSERT INTO t VALUES (7, 'seven', '2024-02-29', 12.50, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a": 1}',
                                 ARRAY['x', 'a"b\\,{}', 'NULL'], true, NULL)"""
    )
    assert database.rows(f"SELECT id FROM t WHERE {condition}", {"v": value}) == [{"id": 7}]


@pytest.mark.parametrize("condition", ["id IN ({{ v }})", "name IN {{ v }}", "key IN ({{ v }})", "id = ANY ({{ v }})"])
def test_nothing_is_in_an_empty_list(database: Database, condition: str) -> None:
    database.result(
        "CREATE TABLE t (id int, name text, key uuid); INSERT INTO t VALUES (7, 'seven', gen_random_uuid())"
    )
    assert database.rows(f"SELECT id FROM t WHERE {condition}", {"v": []}) == []


def test_values_where_the_protocol_takes_no_parameters(database: Database) -> None:
    scope = {"name": "it's", "n": 5, "table": "Odd \"name'", "setting": "x'y"}
    database.result(
        """CREATE TABLE {{ [table] | ident }} (n int DEFAULT {{ n }}, t text DEFAULT '{{ name }}', CHECK (n > {{ -n }}))
           ;
           INSERT INTO "{{ table }}" DEFAULT VALUES;
           COMMENT ON TABLE {{ [table] | ident }} IS {{ name }};
           SET LOCAL application_name = {{ setting }};
           NOTIFY channel, {{ name }};
           ALTER TABLE "{{ table }}" ALTER COLUMN n SET DEFAULT {{ -n }};
           CREATE SEQUENCE s MINVALUE {{ -n }} START {{ n }};
           CREATE VIEW v AS SELECT * FROM "{{ table }}" WHERE t = {{ name }}""",
        scope,
    )
    assert database.rows("SELECT * FROM v") == [{"n": 5, "t": "it's"}]
    assert database.value("SELECT obj_description('{{ q }}'::regclass) AS d", {"q": '"Odd ""name\'"'}) == "it's"


def test_text_without_a_form_in_the_database_is_refused(database: Database) -> None:
    assert "null character" in database.error("SELECT {{ v }}", {"v": "a\0b"}).message
    assert database.error("SELECT {{ v }}", {"v": "a\ud800b"}).kind == "input"
    with pytest.raises(TemplateFailed, match="NaN cannot be stored"):
        database.error("SELECT {{ v }}", {"v": {"a": float("nan")}})


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6), max_size=4),
)
def test_any_text_comes_back_as_it_went(database: Database, text: str, texts: list[str]) -> None:
    query = "SELECT {{ t }} AS a, '<{{ t }}>' AS b, {{ l }}::text[] AS c, {{ m }} AS d, {{ t }} IN ({{ l }}) AS e"
    (result,) = database.rows(query, {"t": text, "l": texts, "m": {"k": texts}})
    assert result == {"a": text, "b": f"<{text}>", "c": texts, "d": {"k": texts}, "e": text in texts}


# --- rows into tables --------------------------------------------------------------------------------

TABLE = """CREATE TABLE t (id int, name text, price numeric, born date, at timestamptz, info jsonb, doc json,
                           tags text[], counts int[], raw bytea, ok bool, key uuid, span int4range)"""


def test_rows_of_every_type_are_copied(database: Database) -> None:
    database.result(TABLE)
    row = {
        "id": 1,
        "name": 'tab\t new\n back\\ "quote" \\N é',
        "price": "12.50",
        "born": "2024-02-29",
        "at": "2024-02-29T12:00:00+00:00",
        "info": {"a": ["x\n", None]},
        "doc": "just text",
        "tags": ["a", 'b"\\,{}', None, ""],
        "counts": [[1, 2], [3, 4]],
        "raw": b"\x00\xff\\",
        "ok": True,
        "key": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "span": "[1,5)",
    }
    assert database.result(table="t", rows=[row, dict.fromkeys(row)]) == {"rows": [], "row_count": 2, "columns": []}
    first, second = database.rows("SET LOCAL TIME ZONE 'UTC'; SELECT * FROM t ORDER BY id")
    assert first == row
    assert second == dict.fromkeys(row)


def test_json_columns_take_any_value_and_text_columns_what_is_not_text(database: Database) -> None:
    database.result("CREATE TABLE t (info jsonb, name text, n int)")
    rows = [[value, value, number] for number, value in enumerate([1, 1.5, "x", True, [1, "a"], {"a": 1}])]
    database.result(table="t", columns=["info", "name", "n"], rows=rows)
    result = database.rows("SELECT info, name FROM t ORDER BY n")
    assert [row["info"] for row in result] == [1, 1.5, "x", True, [1, "a"], {"a": 1}]
    assert [row["name"] for row in result] == ["1", "1.5", "x", "true", '[1, "a"]', '{"a": 1}']


def test_fifty_thousand_rows(database: Database) -> None:
    database.result("CREATE TABLE t (n int, name text)")
    rows = [{"n": n, "name": f"name {n}"} for n in range(50_000)]
    assert database.result(table="t", rows=rows)["row_count"] == 50_000
    assert database.rows("SELECT count(*) AS c, sum(n) AS s, count(DISTINCT name) AS d FROM t") == [
        {"c": 50_000, "s": 50_000 * 49_999 // 2, "d": 50_000}
    ]


def test_without_rows_the_tasks_args_are_the_row(database: Database) -> None:
    database.result("CREATE TABLE t (n int, name text)")
    database.result(table="t", call={"own_args": {"n": 1, "name": "x"}, "args": {"other": 1, "n": 1, "name": "x"}})
    assert database.rows("SELECT * FROM t") == [{"n": 1, "name": "x"}]
    assert database.error(table="t").kind == "input"
    assert database.result(table="t", rows=[])["row_count"] == 0


def test_names_of_tables_and_columns_are_quoted(database: Database) -> None:
    name = database.schema.name
    database.result('CREATE TABLE "Odd; DROP" ("a""b" int)')
    database.result(table=f"{name}.Odd; DROP", rows=[{'a"b': 1}])
    assert database.rows('SELECT * FROM "Odd; DROP"') == [{'a"b': 1}]
    database.result(table="t (n) FROM PROGRAM 'id' --", rows=[{"n": 1}])  # a table of that name
    assert database.rows("SELECT n FROM \"t (n) FROM PROGRAM 'id' --\"") == [{"n": 1}]
    assert database.error(table="a..b", rows=[{"n": 1}]).kind == "input"


def test_a_row_that_does_not_fit_keeps_all_out(database: Database) -> None:
    database.result("CREATE TABLE t (n int PRIMARY KEY)")
    error = database.error(table="t", rows=[{"n": 1}, {"n": 2}, {"n": "x"}])
    assert (error.kind, error.details["sqlstate"]) == ("sql", "22P02")
    assert "line 3" in error.message
    assert database.error(table="t", rows=[{"n": 1}, {"n": 1}]).details["constraint"] == "t_pkey"
    assert database.error(table="t", rows=[{"n": 1}, {"nope": 1}]).kind == "input"
    assert database.error(table="t", rows=[{"nope": 1}]).details["sqlstate"] == "42703"
    assert database.error(table="t", rows=[[1]]).kind == "input"
    assert "row 2" in database.error(table="t", rows=[{"n": "1"}, {"n": "\0"}, {"n": 3}]).message
    assert database.error(table="t", rows=[{"n": 1}], params=[1]).kind == "input"
    assert database.rows("SELECT * FROM t") == []
