"""`noetl tools`: the kinds there are, and what each takes."""

from __future__ import annotations

import json

import pytest
import yaml
from command import noetl
from jsonschema import Draft202012Validator

from noetl.tools.registry import KINDS

NAMES = sorted(KINDS.names())


def test_a_table_lists_every_kind() -> None:
    done = noetl("tools")
    head, *lines = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert head.split() == ["kind", "extra", "summary"]
    assert [line.split()[0] for line in lines] == NAMES


def test_all_formats_say_the_same() -> None:
    kinds = json.loads(noetl("tools", "-o", "json").out)
    assert [list(kind) for kind in kinds] == [["kind", "extra", "summary"]] * len(NAMES)
    assert [json.loads(line) for line in noetl("tools", "-o", "jsonl").out.splitlines()] == kinds
    assert yaml.safe_load(noetl("tools", "-o", "yaml").out) == kinds


def test_the_inputs_of_a_kind_are_a_table_for_people() -> None:
    done = noetl("tools", "schema", "http")
    assert done.code == 0
    assert done.out.split()[:5] == ["name", "type", "required", "default", "description"]
    assert "\nurl " in done.out


@pytest.mark.parametrize("name", ["http", "noop", "iterator"])
def test_and_a_json_schema_for_programs(name: str) -> None:
    schema = json.loads(noetl("tools", "schema", name, "-o", "json").out)
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert yaml.safe_load(noetl("tools", "schema", name, "-o", "yaml").out) == schema


def test_an_unknown_kind_is_four_and_guessed() -> None:
    done = noetl("tools", "schema", "htpp")
    assert (done.code, done.out) == (4, "")
    assert "did you mean 'http'?" in done.err


@pytest.mark.parametrize("args", [["schema"], ["scheme", "http"], ["-o", "xml"], ["schema", "http", "x"]])
def test_a_usage_error_is_two(args: list[str]) -> None:
    done = noetl("tools", *args)
    assert (done.code, done.out) == (2, "")
