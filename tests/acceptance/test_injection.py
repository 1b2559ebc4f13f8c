"""Hostile values through workload, HTTP answers and loop items into SQL, shells and headers: data stays data.

Each value is read back from every place that takes it, unchanged. The tables that some values want to drop are still
there afterwards, the file that others want to make is not, and no server has heard what nobody sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from json import dumps, loads
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import duckdb
import pytest
import yaml
from tests.acceptance.command_line import call, environment
from tests.acceptance.injection.corpus import corpus, with_nul
from tests.acceptance.injection.playbooks import (
    SEPARATOR,
    SHAPES,
    Place,
    child,
    from_http,
    from_loop,
    from_workload,
    spliced,
)
from tests.servers.echo import Echo, echo_server
from tests.servers.postgres import Schema, postgres_fixture, schema_fixture  # noqa: F401
from tests.servers.snowflake import Snowflake, sign_in_fixture, snowflake_fixture  # noqa: F401

from noetl.engine.events import TaskDone
from noetl.model.outcome import Outcome
from noetl.reference import Reference
from noetl.results.read import read_value
from noetl.store.codec import decode
from noetl.store.sqlite import SqliteStore

pytestmark = pytest.mark.filterwarnings("ignore:Arrow output on a DB-API result")  # DuckDB's advice to fakesnow

SOAK = pytest.mark.slow(part="secrets")
CANARIES = "CREATE TABLE canary (id integer, word varchar); INSERT INTO canary VALUES (1, 'one'), (2, 'two')"
SURVIVED = [(1, "one"), (2, "two")]
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""What can't stand in a header."""
MOST_OF_A_LINE = 60_000
"""Characters that an HTTP server takes in a line."""
NAME_BYTES = 63
Outcomes = dict[tuple[str, int | None], Outcome]


class Range:
    """Databases with canaries in them, and runs that come near."""

    def __init__(self, folder: Path, echo: Echo, schema: Schema, snowflake: Snowflake, fields: dict[str, Any]) -> None:
        self.folder, self.echo, self.schema = folder, echo, schema
        self.marker = folder / "marker"
        self.values = corpus(str(self.marker))
        self.place = Place(echo.url, str(folder / "canary.duckdb"))
        self.session = snowflake.engine.connect(fields["database"], fields["schema"])
        (folder / "tmp").mkdir()
        variables = {"pg": dumps(schema.fields()), "snow": dumps(fields)}
        self.env = environment(folder, **variables)
        for statement in CANARIES.split("; "):
            schema.rows(statement)
            self.session.cursor().execute(statement)
        with duckdb.connect(self.place.duckdb) as connection:
            connection.execute(CANARIES)
        self.write(child())

    def named(self) -> dict[str, str]:
        return {f"p{number:03}": value for number, value in enumerate(self.values)}

    def write(self, playbook: dict[str, Any]) -> str:
        name = f"{playbook['metadata']['name']}.yaml"
        (self.folder / name).write_text(yaml.safe_dump(playbook, sort_keys=False, allow_unicode=True, width=1000))
        return name

    def run(self, playbook: dict[str, Any], payload: dict[str, Any]) -> Outcomes:
        """What became of each task, by its label and the index of its item."""
        (self.folder / "payload.json").write_text(dumps(payload))
        args = ["run", self.write(playbook), "--payload", "@payload.json", "--db", "noetl.db"]
        done = call(*args, cwd=self.folder, env=self.env)
        assert done.code == 0, done.err.decode()[-3000:]
        verified = call("verify", "--db", "noetl.db", "-o", "json", cwd=self.folder, env=self.env)
        assert loads(verified.out)["violations"] == []
        return self._outcomes()

    def _outcomes(self) -> Outcomes:
        store = SqliteStore(self.folder / "noetl.db")
        try:
            result: Outcomes = {}
            (summary,) = [summary for summary in store.summaries() if summary.name != "child"]
            for row in store.read(summary.execution_id):
                if row.type == TaskDone.name:
                    fact = decode(row.type, row.data)
                    label = fact.task.path.rpartition("#")[0]
                    result[label, fact.task.index] = _loaded(store, fact.outcome)
            return result
        finally:
            store.close()

    def has_canary(self) -> bool:
        return self.schema.rows("SELECT to_regclass('canary')") != [(None,)]

    def assert_unharmed(self) -> None:
        assert not self.marker.exists()
        assert self.has_canary()
        assert self.schema.rows("SELECT id, word FROM canary ORDER BY id") == SURVIVED
        with duckdb.connect(self.place.duckdb) as connection:
            assert connection.execute("SELECT id, word FROM canary ORDER BY id").fetchall() == SURVIVED
        cursor = self.session.cursor().execute("SELECT id, word FROM canary ORDER BY id")
        assert cursor.fetchall() == SURVIVED
        heard = self.echo.heard
        assert not any(name.lower() == "injected" for one in heard for name in one.headers)
        assert {one.path for one in heard} <= {"/echo", "/values"}


def _loaded(store: SqliteStore, outcome: Outcome) -> Outcome:
    def whole(value: Any) -> Any:
        if isinstance(value, Reference):
            return whole(read_value(store.blob, value))
        return {key: whole(item) for key, item in value.items()} if isinstance(value, dict) else value

    return Outcome(outcome.status, whole(outcome.result), outcome.error, outcome.extra)


@pytest.fixture(name="shooting")
def shooting_fixture(tmp_path: Path, schema: Schema, snowflake: Snowflake, sign_in: dict[str, Any]) -> Iterator[Range]:
    with echo_server() as echo:
        yield Range(tmp_path, echo, schema, snowflake, sign_in)


def test_there_are_enough(shooting: Range) -> None:
    assert len(shooting.values) >= 80


def test_values_that_are_spliced_on_purpose_do_harm(shooting: Range) -> None:
    """The canaries die where they should: what the other tests look at can be seen."""
    shooting.run(spliced(), {"sql": "'; DROP TABLE canary; --", "code": f"touch {shooting.marker}"})
    assert not shooting.has_canary()
    assert shooting.marker.exists()


def test_values_of_the_workload(shooting: Range) -> None:
    values = shooting.named()
    outcomes = shooting.run(from_workload(shooting.place, values), {"values": values})
    shooting.assert_unharmed()
    assert changed(outcomes, values) == {}


@SOAK
def test_values_of_a_server(shooting: Range) -> None:
    values = shooting.named()
    shooting.echo.answers["/values"] = values
    outcomes = shooting.run(from_http(shooting.place, values), {})
    shooting.assert_unharmed()
    assert changed(outcomes, values) == {}


@SOAK
def test_items_of_a_loop(shooting: Range) -> None:
    outcomes = shooting.run(from_loop(shooting.place), {"values": shooting.values})
    shooting.assert_unharmed()
    assert mistaken(outcomes, shooting.values) == {}


@SOAK
def test_items_with_the_character_nul(shooting: Range) -> None:
    """Where there can be no such character, it is said so: nothing is cut off."""
    values = with_nul(str(shooting.marker))
    outcomes = shooting.run(from_loop(shooting.place), {"values": values})
    shooting.assert_unharmed()
    for (label, index), outcome in outcomes.items():
        assert index is not None
        if outcome.error is None:
            assert right(label, outcome, values[index]), (label, values[index], outcome.result)
        else:
            assert outcome.error.kind in ("input", "sql", "template"), (label, outcome.error)


# -- what must come out -----------------------------------------------------------------------------------------------


def changed(outcomes: Outcomes, values: dict[str, str]) -> dict[str, Any]:
    """What did not come back as it went in, by place and value."""
    result: dict[str, Any] = {}
    for (label, _), outcome in outcomes.items():
        if outcome.error is not None:
            result[label] = outcome.error.message[:300]
        elif (got := _came_back(label, outcome.result, [*values])) is not None:
            wrong = {
                name: (want[:80], str(got.get(name))[:80])
                for name, want in _wanted(label, values).items()
                if got.get(name) != want
            }
            if wrong:
                result[label] = wrong
    return result


def _wanted(label: str, values: dict[str, str]) -> dict[str, str]:
    shape = SHAPES.get(label.rpartition("_")[2], str)
    return {name: shape(value) for name, value in values.items()}


def _came_back(label: str, result: Any, names: list[str]) -> dict[str, str] | None:
    """The values that a task gave back; None if it was not to give any."""
    kind, _, shape = label.partition("_")
    if kind in ("shell", "script"):
        return dict(zip(names, result["stdout"].split(SEPARATOR), strict=False))
    if kind == "http":
        body = result["data"]["body"]
        return dict(loads(body) if shape == "json" else parse_qsl(body, keep_blank_values=True))
    if kind in ("noop", "python", "child"):
        return dict(result)
    if shape == "in":
        assert len(result["rows"]) == 1, label
    if shape in ("in", "like", "made") or label == "get":
        return None
    return {name.lower(): value for name, value in result["rows"][0].items()}


def mistaken(outcomes: Outcomes, values: list[str]) -> dict[str, Any]:
    """What did not become of an item what should have."""
    result = {}
    for (label, index), outcome in outcomes.items():
        assert index is not None
        if not right(label, outcome, values[index]):
            result[f"{label} {values[index][:60]!r}"] = str(outcome.error or outcome.result)[:300]
    return result


def right(label: str, outcome: Outcome, value: str) -> bool:
    kind, _, shape = label.partition("_")
    error, result = outcome.error, outcome.result
    long = len(value) > MOST_OF_A_LINE
    if shape == "header":
        if CONTROL.search(value):
            return error is not None and error.kind == "input"
        got = "" if error else result["data"]["headers"].get("X-Value", "").encode("latin-1").decode()
        return long or got == value.strip(" \t")
    if shape == "query":
        return long or (error is None and result["data"]["query"] == {"v": value})
    if shape in ("interval", "number", "name", "setting", "comment") and error is not None:
        return error.kind in ("sql", "input", "template")
    if shape in ("interval", "setting", "comment"):
        return True
    if shape == "number":
        return len(result["rows"]) <= 1
    if shape == "name":
        return len(value.encode()) > NAME_BYTES or [*result["rows"][0]] == [value]
    if shape == "several":
        return error is None or error.kind in ("exit_code", "too_large")
    if error is not None:
        return False
    want = SHAPES[shape.rpartition("_")[2]](value)
    if kind == "shell":
        return bool(result["stdout"] == want)
    if kind in ("python", "noop"):
        return bool(result == want)
    return [*result["rows"][0].values()] == [want]
