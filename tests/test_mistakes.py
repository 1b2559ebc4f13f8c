"""The mistakes of `tests/mistakes/table.yaml` are found, where it says, with the advice that it names."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.servers import forked, in_process
from tests.servers.patience import PATIENCE_SECONDS
from tests.servers.postgres import PostgresServer, postgres_fixture  # noqa: F401
from tests.table import for_each

from noetl.dsl.compile import load
from noetl.tools.registry import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: orders, path: shop/orders}\n"
NO_NAME_SERVICE = """
import socket

def unknown(*asked, **more):
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

socket.getaddrinfo = unknown
from noetl.cli.start import main
main()
"""


class Mistake(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mistake: str
    found: str
    message: str
    text: str = ""
    args: list[str] = []
    place: str = ""
    remedy: str = ""
    server: str = ""
    kind: str = "postgres_credential"
    credential: dict[str, Any] | None = None

    @property
    def playbook(self) -> str:
        return self.text if self.text.startswith("---") else HEAD + self.text

    @property
    def is_checked(self) -> bool:
        return self.found == "validate"


TABLE = msgspec.convert(
    yaml.safe_load((Path(__file__).parent / "mistakes" / "table.yaml").read_text(encoding="utf-8")), list[Mistake]
)
CHECKED = [row for row in TABLE if row.is_checked]
TRIED = [row for row in TABLE if not row.is_checked]


def noetl(folder: Path, *args: str, stdin: str = "", code: str = "") -> str:
    """What a command prints, on both streams."""
    if code:
        done = forked.run(args, stdin=stdin.encode(), timeout=PATIENCE_SECONDS, cwd=folder, code=code)
    else:
        done = in_process.run(args, stdin=stdin.encode(), timeout=PATIENCE_SECONDS, cwd=folder)
    return done.stdout.decode() + done.stderr.decode()


@for_each("row", CHECKED)
def test_a_mistake_is_found_by_validate(row: Mistake) -> None:
    problems = load("playbook.yaml", row.playbook, KINDS).problems
    said = [(f"{problem.line}:{problem.column}", problem.message, problem.hint or "") for problem in problems]
    assert any(
        place == row.place and row.message in message and row.remedy in f"{message} {hint}"
        for place, message, hint in said
    ), (row.mistake, said)


@pytest.mark.parametrize("row", TRIED, ids=lambda row: row.mistake)
def test_a_mistake_is_found_when_it_is_tried(row: Mistake, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (tmp_path / "playbook.yaml").write_text(row.playbook, encoding="utf-8")
    if row.server == "postgres" or row.credential is not None:
        server: PostgresServer | None = request.getfixturevalue("postgres") if row.server else None
        fields = {**(server.fields() if server else {}), **(row.credential or {})}
        assert "stored" in noetl(tmp_path, "credential", "set", "db", "--kind", row.kind, stdin=json.dumps(fields))
    if row.found in ("run", "start", "works"):
        code = NO_NAME_SERVICE if row.server == "no name service" else ""
        said = noetl(tmp_path, "run", "playbook.yaml", *row.args, code=code)
        assert (" started\n" in said) == (row.found != "start" and "loop_input" not in said), said
    elif row.found.startswith("runs signal"):
        said = signalled(tmp_path, row)
    else:
        said = noetl(tmp_path, *row.found.split(), *row.args)
    place = f"playbook.yaml:{row.place}:" if row.place[:1].isdigit() else row.place
    assert place in said, said
    assert row.message in said, said
    assert row.remedy in said, said


def signalled(folder: Path, row: Mistake) -> str:
    """What is said to a signal for a run that waits."""
    run = forked.Process(["run", "playbook.yaml"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        assert run.stdout is not None
        next(line for line in run.stdout if b"waits for the signal" in line)
        return noetl(folder, *row.found.split(), *row.args)
    finally:
        run.kill()
        run.wait()
        if run.stdout is not None:
            run.stdout.close()


def test_no_mistake_is_silent_and_most_tell_the_place_and_the_remedy() -> None:
    assert len(TABLE) == 69
    assert all(row.message for row in TABLE)
    solved = sum(row.found == "works" for row in TABLE)
    assert sum(bool(row.place) for row in TABLE) + solved >= 55
    assert sum(bool(row.remedy) for row in TABLE) + solved >= 50
