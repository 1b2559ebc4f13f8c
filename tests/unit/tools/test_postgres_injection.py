"""Data that wants to be SQL, in every place where a template can stand: it arrives as data, nothing else happens."""

from __future__ import annotations

from typing import Any

import pytest
from tests.servers.postgres import postgres_fixture, schema_fixture  # noqa: F401
from tests.servers.postgres_calls import Database, database_fixture  # noqa: F401

PAYLOADS = [
    "'",
    "''",
    "'''",
    '"',
    '""',
    "\\",
    "\\'",
    "\\\\'",
    "'--",
    "'; --",
    "';",
    ";",
    "/*",
    "*/",
    "/* */",
    "--",
    "-- \n",
    "#",
    "' OR '1'='1",
    "' OR 1=1 --",
    '" OR ""="',
    "1 OR 1=1",
    "1; DROP TABLE canary",
    "1); DROP TABLE canary; --",
    "'; DROP TABLE canary; --",
    "'); DROP TABLE canary; --",
    "\\'; DROP TABLE canary; --",
    "\n; DROP TABLE canary; --",
    "x' UNION SELECT secret FROM canary --",
    "' || (SELECT secret FROM canary) || '",
    "'||pg_sleep(9)||'",
    "$$",
    "$$; DROP TABLE canary; $$",
    "$a$ DROP TABLE canary $a$",
    "E'\\x27'",
    "U&'\\0027'",
    "\\x27",
    "\\047",
    "%27",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "{# x #}",
    "{{ secret | raw_sql }}",
    "}}'; DROP TABLE canary; --",
    "%s",
    "%(a)s",
    "%",
    "%%",
    "?",
    "$1",
    ":name",
    "\u02bc; DROP TABLE canary; --",
    "\uff07; DROP TABLE canary; --",
    "\u2019",
    "\u200b'",
    "\ufeff'",
    "\x01",
    "\x1f",
    "\x7f",
    "\x08'",
    "\r\n",
    "\t'",
    "\u0085",
    "\u2028'; DROP TABLE canary",
    "𝒳'😀",
    "é'",
    "NULL",
    "null",
    "true",
    "",
    " ",
    "-1",
    "1e1000",
    "{1,2}",
    '{"a": "b\'"}',
    "[1]",
    "now()",
    "current_user",
    "DEFAULT",
    "ARRAY['x']",
    "a.b",
    'a"."b',
    "pg_catalog.pg_class",
    "x'::regclass",
    "') RETURNING secret; --",
    "'::text); SELECT 1; --",
    "a" * 10_000,
]
assert len(PAYLOADS) >= 60

READ_BACK = {
    "unquoted": "SELECT {{ p }} AS v",
    "quoted": "SELECT '{{ p }}' AS v",
    "in a longer string": "SELECT substr('<{{ p }}>', 2, length('{{ p }}')) AS v",
    "with escapes": "SELECT substr(E'\\n{{ p }}', 2) AS v",
    "beside doubled quotes": "SELECT substr('''{{ p }}''', 2, length({{ p }})) AS v",
    "in a call": "SELECT concat({{ p }}) AS v",
    "in a cast": "SELECT {{ p }}::text AS v",
    "in VALUES": "SELECT v FROM (VALUES ({{ p }})) AS t (v)",
    "in IN": "SELECT {{ p }} AS v WHERE {{ p }} IN ({{ p }}, {{ [p, 'x'] }})",
    "in IN, quoted": "SELECT {{ p }} AS v WHERE {{ p }} IN ('{{ p }}', 'x')",
    "in an array": "SELECT ({{ [p, 'x'] }}::text[])[1] AS v",
    "in a list of one": "SELECT (ARRAY[{{ p }}])[1] AS v",
    "in json": "SELECT {{ {'k': p} }} ->> 'k' AS v",
    "as a key of json": "SELECT jsonb_object_keys({{ {p: 1} }}) AS v",
    "behind a comment": "SELECT -- {{ p }} it's\n {{ p }} /* {{ p }} */ AS v",
    "beside operators": "SELECT {{ p }}||''AS v",
    "with params": "SELECT %s AS v",
    "with named params": "SELECT '' || %(p)s || '' AS v",
    "of several statements": "SELECT 1; SELECT {{ p }} AS v",
    "as the last of many arguments": "SELECT format('%s', VARIADIC ARRAY[{{ p }}]) AS v",
    "as a setting": "SELECT set_config('app.v', {{ p }}, true); SELECT current_setting('app.v') AS v",
    "chosen by control flow": "SELECT {% if true %}{{ p }}{% else %}1{% endif %} AS v",
}


@pytest.fixture
def guarded(database: Database) -> Database:
    database.result("CREATE TABLE canary (secret text); INSERT INTO canary VALUES ('the secret')")
    return database


def unharmed(database: Database) -> None:
    assert database.schema.rows("SELECT secret FROM canary") == [("the secret",)]


@pytest.mark.parametrize("place", READ_BACK)
def test_a_payload_comes_back_as_the_value_it_is(guarded: Database, place: str) -> None:
    query = READ_BACK[place]
    for payload in PAYLOADS:
        params: Any = [payload] if "SELECT %s" in query else {"p": payload} if "%(p)s" in query else None
        assert guarded.value(query, {"p": payload, "secret": "x"}, params=params) == payload, payload
    unharmed(guarded)


def test_patterns_match_what_they_hold(guarded: Database) -> None:
    for payload in PAYLOADS:
        pattern = payload.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        query = "SELECT {{ p }} LIKE '%{{ pattern }}%' AS a, 'other' LIKE '{{ pattern }}_{{ pattern }}' AS b"
        assert guarded.rows(query, {"p": f"x{payload}y", "pattern": pattern}) == [{"a": True, "b": False}], payload
    unharmed(guarded)


def test_names_are_names(guarded: Database) -> None:
    for payload in PAYLOADS:
        if not payload or len(payload.encode()) > 63:
            continue
        query = 'CREATE TEMP TABLE {{ [p] | ident }} ("{{ p }}" text) ON COMMIT DROP; SELECT * FROM "{{ p }}"'
        assert guarded.result(query, {"p": payload})["columns"] == [payload], payload
        result = guarded.result('SELECT 1 AS {{ [p] | ident }}, 2 AS "{{ p }}\'"', {"p": payload})
        assert result["columns"] == [payload, payload + "'"], payload
    unharmed(guarded)


def test_definitions_hold_values(guarded: Database) -> None:
    for number, payload in enumerate(PAYLOADS):
        query = (
            "CREATE TABLE {{ t | ident }} (v text DEFAULT {{ p }}, w text DEFAULT '<{{ p }}>', CHECK (v = {{ p }}));"
            "COMMENT ON COLUMN {{ t | ident }}.v IS {{ p }};"
            "INSERT INTO {{ t | ident }} DEFAULT VALUES;"
            "SELECT v, w, col_description('{{ t }}'::regclass, 1) AS c FROM {{ t | ident }}"
        )
        (result,) = guarded.rows(query, {"t": f"t{number}", "p": payload})
        assert result == {"v": payload, "w": f"<{payload}>", "c": payload or None}, payload
    unharmed(guarded)


def test_literals_of_a_type_hold_one_value(guarded: Database) -> None:
    """An interval or a date that makes no sense is refused by the type, never read as SQL."""
    for payload in PAYLOADS:
        for literal in ("interval {{ p }}", "date '{{ p }}'", "{{ p }}::int", "'{{ p }}'::json"):
            query = f"SELECT {literal}"
            error = guarded.outcome(query, {"p": payload}).error
            assert error is None or error.details["sqlstate"][:2] in ("22", "42"), (query, payload)
            assert error is None or error.details["sqlstate"] != "42601", (query, payload)
    unharmed(guarded)


def test_rows_and_conditions(guarded: Database) -> None:
    guarded.result("CREATE TABLE t (n int, v text, info jsonb, tags text[])")
    rows = [[n, p, {"k": p}, [p]] for n, p in enumerate(PAYLOADS)]
    guarded.result(table="t", rows=rows, columns=["n", "v", "info", "tags"])
    for number, payload in enumerate(PAYLOADS):
        query = "SELECT n FROM t WHERE v = {{ p }} AND info ->> 'k' = '{{ p }}' AND tags = {{ [p] }} AND n IN ({{ n }})"
        assert guarded.rows(query, {"p": payload, "n": number}) == [{"n": number}], payload
        guarded.result("UPDATE t SET v = '{{ p }}' || '!' WHERE n = {{ n }}", {"p": payload, "n": str(number)})
        guarded.result("INSERT INTO t (n, v) SELECT -1, {{ p }}; DELETE FROM t WHERE v IN ({{ [p] }})", {"p": payload})
    assert guarded.rows("SELECT v FROM t ORDER BY n") == [{"v": payload + "!"} for payload in PAYLOADS]
    unharmed(guarded)


def test_a_server_that_reads_backslashes_in_strings_is_no_way_in(guarded: Database) -> None:
    """`standard_conforming_strings` off by default would shift the end of strings that the author wrote."""
    auth = guarded.schema.fields(options="-c standard_conforming_strings=off -c backslash_quote=on")
    query = "SELECT '\\' AS a, {{ p }} AS b, '{{ p }}\\' AS c"
    for payload in PAYLOADS:
        result = guarded.rows(query, {"p": payload}, auth=auth)
        assert result == [{"a": "\\", "b": payload, "c": payload + "\\"}], payload
    unharmed(guarded)
