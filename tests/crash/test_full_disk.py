"""A full disk ends a run with an error that says so; when there is room again it is resumed to its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.store.sqlite import SqliteStore

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: grows, path: crash/grows}
workflow:
  - step: start
    loop: {in: "{{ range(120) }}", iterator: n, spec: {mode: MODE}}
    tool:
      - one: {kind: noop, result: "{{ iter.n }}"}
      - two: {kind: noop, result: "{{ 'x' * 1000 }}"}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop, result: "{{ steps.start.result | length }}"}}
"""
SMALL_DISK = """\
import sys
from noetl.cli.main import main
from noetl.store.sqlite.database import SqliteDatabase

connect, pages = SqliteDatabase.__init__, int(sys.argv.pop(1))

def connect_small(self, *args, **options):
    connect(self, *args, **options)
    self.connection.execute(f"PRAGMA max_page_count = {pages}")

SqliteDatabase.__init__ = connect_small
main()
"""
SECONDS = 60


def noetl(folder: Path, *args: str, pages: int = 1_000_000) -> Any:
    return subprocess.run(
        [sys.executable, "-c", SMALL_DISK, str(pages), *args],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize(("mode", "pages"), [("sequential", 60), ("parallel", 90)])
def test_a_run_whose_disk_is_full_says_so_and_can_be_resumed(tmp_path: Path, mode: str, pages: int) -> None:
    (tmp_path / "grows.yaml").write_text(PLAYBOOK.replace("MODE", mode))
    full = noetl(tmp_path, "run", "grows.yaml", "-o", "json", pages=pages)
    assert full.returncode == 1, full.stderr
    assert full.stdout == ""
    assert "the disk is full" in full.stderr
    assert "Traceback" not in full.stderr

    assert noetl(tmp_path, "verify").returncode == 0
    still = noetl(tmp_path, "runs", "resume", "last", "-o", "json", pages=pages)
    assert still.returncode == 1, still.stderr
    assert "the disk is full" in still.stderr
    before = accepted(tmp_path)

    there_is_room = noetl(tmp_path, "runs", "resume", "last", "-o", "json")
    assert there_is_room.returncode == 0, there_is_room.stderr
    assert msgspec.json.decode(there_is_room.stdout)["result"] == 120
    after = accepted(tmp_path)
    assert after[: len(before)] == before
    done = [row for row in after if row.type == "task.done"]
    assert len(done) == 2 * 120 + 1
    assert noetl(tmp_path, "verify").returncode == 0


def accepted(folder: Path) -> list[Any]:
    store = SqliteStore(folder / ".noetl" / "noetl.db", mode="read")
    try:
        (run,) = store.summaries()
        return store.read(run.execution_id)
    finally:
        store.close()
