"""kind: script against real processes."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl.model.outcome import Outcome
from noetl.tools.base import Context
from noetl.tools.script import Inputs, close, run

SECRET = "open-sesame-1"


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    assert not list(tmp_path.glob("noetl-*"))


def outcome(spec: dict[str, Any] | None = None, **inputs: Any) -> Outcome:
    context = Context(
        execution="e1",
        action="action-1",
        attempt=1,
        step="step",
        task="task",
        timeout=None,
        args={},
        prev=None,
        log=lambda stream, line: None,
        redact=lambda value: value.replace(SECRET, "***") if isinstance(value, str) else value,
        spec=spec or {},
    )

    async def story() -> Outcome:
        try:
            async with asyncio.timeout(300):
                return await run(Inputs(**inputs), context)
        finally:
            await close()

    return asyncio.run(story())


def stdout(**inputs: Any) -> str:
    result = outcome(**inputs)
    assert result.error is None, result.error
    assert result.extra == {"script": {"exit_code": 0}}
    return str(result.result["stdout"])


def failure(**inputs: Any) -> tuple[str, str]:
    result = outcome(**inputs)
    assert result.error is not None
    assert result.extra == {"script": {"exit_code": None}}
    return result.error.kind, result.error.message


def test_text_without_a_first_line_is_for_sh() -> None:
    assert stdout(ref='echo "$1" $#', argv=["a b", 2, True]) == "a b 3\n"


@pytest.mark.parametrize(
    "first", ["#!/usr/bin/env python3", "#! /usr/bin/env  python3 ", "#!/usr/bin/env -S python3 -u"]
)
def test_the_first_line_names_the_interpreter(first: str) -> None:
    assert stdout(ref=f"{first}\nimport sys\nprint(sys.argv[1:])", argv=["x", 1.5]) == "['x', '1.5']\n"


def test_an_interpreter_of_the_author_wins() -> None:
    assert stdout(ref="#!/bin/sh\nprint(1 + 1)", interpreter="python3") == "2\n"
    assert stdout(ref="import sys\nprint(sys.flags.optimize)", interpreter=["python3", "-O"]) == "1\n"


def test_bytes_are_a_script_too() -> None:
    assert stdout(ref=b"echo bytes") == "bytes\n"


def test_a_file_needs_no_rights_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/sh\necho job in $(basename $PWD); cat\n")
    assert stdout(path=str(tmp_path / "job.sh"), cwd=str(tmp_path), stdin="in") == f"job in {tmp_path.name}\nin"


def test_templates_in_a_script_are_text() -> None:
    assert stdout(ref="echo '{{ x }}'") == "{{ x }}\n"


def test_the_script_is_private() -> None:
    assert stdout(ref="stat -c %a $0; basename $0") == "700\nscript\n"


def test_its_exit_code_is_the_error() -> None:
    result = outcome(ref="echo why >&2; exit 7")
    assert result.error is not None
    assert result.error.kind == "exit_code"
    assert result.extra == {"script": {"exit_code": 7}}


@pytest.mark.parametrize(
    ("inputs", "kind", "says"),
    [
        pytest.param({"path": "/no/script"}, "not_found", "cannot be read on this worker", id="file"),
        pytest.param({"path": "/etc"}, "not_found", "cannot be read on this worker", id="folder"),
        pytest.param({"ref": {"rows": []}}, "input", "must be a text", id="no text"),
        pytest.param({"ref": "#!/no/such\n"}, "not_found", "program '/no/such' is not on", id="first line"),
        pytest.param(
            {"ref": ":", "interpreter": "no-such"}, "not_found", "program 'no-such' is not on", id="interpreter"
        ),
        pytest.param({"ref": ":", "argv": [SECRET]}, "input", "has a secret", id="secret"),
        pytest.param({"ref": f": {SECRET}"}, "input", "the script contains a secret", id="secret-text"),
    ],
)
def test_what_cannot_be_run(inputs: dict[str, Any], kind: str, says: str) -> None:
    found_kind, message = failure(**inputs)
    assert (found_kind, says in message) == (kind, True), message
