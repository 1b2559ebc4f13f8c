"""What a task prints, raises or returns reaches the terminal of whoever looks as text, never as a command to it."""

from __future__ import annotations

import json
import os
import pty
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml
from command import SECONDS, environment, file, noetl
from terminal import HEAD, data
from tests.acceptance.modes.stage import Process
from tests.servers import forked

from noetl.printable import printable, printable_json

FOREIGN = "\x1b]0;pwned\x07\x1b[2J\x1b[31mred \u202eevil\u202c \x9b31m \rover\x08 \x7f \x1b]52;c;cHduZWQ=\x07"
WRONG = {
    "OSC": b"\x1b]",
    "clear": b"\x1b[2J",
    "colour": b"\x1b[31mred",
    "C1": "\x9b".encode(),
    "bidi": "\u202e".encode(),
    "BEL": b"\x07",
    "BS": b"\x08",
    "DEL": b"\x7f",
    "CR": b"\rover",
}
HOSTILE = (
    HEAD
    + f"""\
workload: {{word: {json.dumps(FOREIGN)}}}
workflow:
  - step: start
    tool:
      - print:
          kind: python
          code: |
            print({FOREIGN!a})
            result = {FOREIGN!a}
    next: {{arcs: [{{step: end, when: "{{{{ steps.start.result == workload.word }}}}"}}, {{step: end}}]}}
  - step: end
    tool: {{kind: python, code: END}}
"""
)
FAILS = HOSTILE.replace("END", f'"raise ValueError({FOREIGN!a})"'.replace("\\", "\\\\"))
ENDS = HOSTILE.replace("END", f'"result = {FOREIGN!a}"'.replace("\\", "\\\\"))
VERBS = (
    ["runs", "logs", "FAILED"],
    ["runs", "show", "FAILED"],
    ["runs", "show", "ENDED"],
    ["runs", "watch", "FAILED"],
    ["runs", "watch", "ENDED"],
    ["runs", "list"],
    ["runs", "events", "FAILED"],
    ["runs", "diff", "FAILED", "ENDED"],
    ["explain", "FAILED", "start"],
)
LOCAL = (
    ["runs", "replay", "ENDED", "--playbook", "other.yaml"],
    ["runs", "export", "FAILED", "-f", "-"],
    ["runs", "signal", FOREIGN, "x"],
)
FORMS = (["-o", "json"], ["-o", "jsonl"], ["-o", "yaml"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("foreign")


@pytest.fixture(scope="module")
def names(folder: Path) -> dict[str, str]:
    """A run that failed, and one that succeeded."""
    result = {}
    for name, text in (("FAILED", FAILS), ("ENDED", ENDS)):
        done = noetl("run", file(folder, text), "-o", "json", cwd=folder)
        result[name] = data(done)["execution_id"]
        assert data(done)["status"] == ("failed" if name == "FAILED" else "succeeded"), done
    file(folder, ENDS.replace("END", "x").replace("step: end", "step: other"), "other.yaml")
    return result


def commands_in(said: bytes) -> list[str]:
    return [name for name, part in WRONG.items() if part in said]


def on_pipe(folder: Path, args: list[str], env: dict[str, str]) -> bytes:
    done = forked.run(args, cwd=folder, env=environment(**env), timeout=SECONDS)
    return done.stdout + done.stderr


def on_terminal(folder: Path, args: list[str], env: dict[str, str]) -> bytes:
    ours, theirs = pty.openpty()
    process = forked.Process(
        args,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=environment(TERM="xterm-256color", **env),
    )
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 65536):
            said += part
    except OSError:  # the other side has ended
        pass
    finally:
        os.close(ours)
        process.wait(SECONDS)
    return said


def filled(args: list[str], names: dict[str, str]) -> list[str]:
    return [names.get(arg, arg) for arg in args]


@pytest.mark.parametrize("args", [*VERBS, *LOCAL], ids=" ".join)
def test_no_verb_passes_on_a_command_to_the_terminal(folder: Path, names: dict[str, str], args: list[str]) -> None:
    for look in (on_pipe, on_terminal):
        said = look(folder, filled(args, names), {})
        assert said
        assert commands_in(said) == [], said


@pytest.mark.parametrize("text", [FAILS, ENDS], ids=["fails", "ends"])
def test_nor_does_a_run_in_the_foreground(folder: Path, text: str) -> None:
    path = file(folder, text, "again.yaml")
    for look in (on_pipe, on_terminal):
        assert commands_in(look(folder, ["run", path], {})) == []


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_data_is_escaped_and_still_the_same(folder: Path, names: dict[str, str], form: list[str]) -> None:
    said = on_pipe(folder, ["runs", "show", names["ENDED"], *form], {})
    assert commands_in(said) == []
    result = yaml.safe_load(said) if "yaml" in form else msgspec.json.decode(said)
    assert result["result"] == FOREIGN


@pytest.fixture(scope="module")
def dev(folder: Path, names: dict[str, str]) -> Iterator[dict[str, str]]:
    process = Process(folder, "dev", "dev", "--port", "0", "--db", str(folder / ".noetl" / "noetl.db"))
    process.start()
    line = process.until_said("export ")
    yield dict(part.split("=", 1) for part in line.split()[1:]) | {"NO_PROXY": "*"}
    process.stop()
    assert commands_in(process.output.read_bytes()) == []


@pytest.mark.parametrize("args", VERBS, ids=" ".join)
def test_the_same_of_a_server(folder: Path, names: dict[str, str], dev: dict[str, str], args: list[str]) -> None:
    for look in (on_pipe, on_terminal):
        said = look(folder, filled(args, names), dev)
        assert said
        assert commands_in(said) == [], said


def test_an_export_is_for_its_owner_only(folder: Path, names: dict[str, str]) -> None:
    path = folder / "run.json"
    path.write_text("old")
    path.chmod(0o644)
    for one in (path, folder / "new.json"):
        assert noetl("runs", "export", names["FAILED"], "-f", str(one), cwd=folder).code == 0
        assert stat.S_IMODE(one.stat().st_mode) == 0o600
        assert msgspec.json.decode(one.read_bytes())["execution"]["execution_id"] == names["FAILED"]


def test_every_character_that_a_terminal_acts_on_is_escaped() -> None:
    controls = {chr(code) for code in range(0x110000) if not chr(code).isprintable() and not chr(code).isspace()}
    shown = {char for char in controls if printable(char) == char}
    allowed = {char for char in shown if ord(char) >= 0xAD and char not in "\u202a\u2066"}
    assert shown == allowed  # soft hyphens, joiners, private use: nothing that acts
    assert printable("a\tb\nc\rd\x1b") == "a\tb\\nc\\rd\\x1b"
    assert printable("a\nb\r", lines=True) == "a\nb\\r"
    assert printable("ü → 中文 \U0001f600") == "ü → 中文 \U0001f600"
    assert printable_json('"\x9b\u202e\x7fü"') == '"\\u009b\\u202e\\u007fü"'
