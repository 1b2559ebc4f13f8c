"""`noetl schema`: a JSON Schema that editors can use."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import yaml
from command import BAD, CLASSIC, GOOD, SECONDS, noetl
from jsonschema import Draft202012Validator


@pytest.fixture(scope="module")
def schema() -> dict[str, object]:
    done = noetl("schema")
    assert (done.code, done.err) == (0, "")
    result: dict[str, object] = json.loads(done.out)
    return result


def test_it_is_a_valid_schema_of_its_dialect(schema: dict[str, object]) -> None:
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("text", [GOOD, CLASSIC])
def test_good_playbooks_of_both_dialects_are_valid(schema: dict[str, object], text: str) -> None:
    assert Draft202012Validator(schema).is_valid(yaml.safe_load(text))


@pytest.mark.parametrize(
    "text", [BAD, GOOD.replace("workflow", "workflows"), GOOD.replace("tool", "tol"), GOOD.replace("v2", "v1"), "a: 1"]
)
def test_playbooks_with_the_wrong_keys_or_kinds_are_not(schema: dict[str, object], text: str) -> None:
    assert not Draft202012Validator(schema).is_valid(yaml.safe_load(text))


def test_it_takes_no_arguments() -> None:
    assert noetl("schema", "x").code == 2


def test_a_reader_that_leaves_early_is_no_error_to_talk_about() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m noetl.cli schema | head -1"],
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.stdout, done.stderr) == (b"{\n", b"")
