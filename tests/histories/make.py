"""Writes the history of this version: a database with every construct, `VERSION.db.xz`.

    python -m tests.histories.make

The runs are those of tests/crash/playbooks and of the playbooks here. Some are paused, cancelled, signalled, forked,
retried or killed, one is started by a schedule of a server, and some are left open. A file is never replaced: if this
version has one, the next is `VERSION-2.db.xz`.
"""

from __future__ import annotations

import lzma
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

import noetl
from noetl.store.sqlite import SqliteStore
from noetl.store.sqlite.backup import copy_database
from noetl.store.store import Summary

HERE = Path(__file__).parent
PLAYBOOKS = (HERE.parent / "crash" / "playbooks", HERE / "playbooks")
OPERATED = ("child_cancelled", "child_paused", "classic_listen", "signal_early", "wait_signal", "killed_loop")
LEFT_OUT = ("secrets", "large")  # they need a credential, and files next to the database
SECONDS = 120.0
MAX_BYTES = 1_000_000


class Workspace:
    """A folder with the playbooks and the database, in which commands run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.database = folder, folder / "history.db"
        for source in PLAYBOOKS:
            for file in source.glob("*.yaml"):
                shutil.copy(file, folder)
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("NOETL_")}
        self.environment |= {"NOETL_DB": str(self.database), "NO_COLOR": "1"}

    def noetl(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> None:
        done = subprocess.run(self._command(arguments), **self._options(), timeout=SECONDS, check=False)
        if done.returncode not in codes:
            sys.exit(f"noetl {' '.join(arguments)} exited with {done.returncode}: {done.stderr}")

    @contextmanager
    def background(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A command that runs in the background; it is killed if it has not ended."""
        with subprocess.Popen(self._command(arguments), **self._options()) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def end(self, process: subprocess.Popen[str], number: int | None = None) -> None:
        if number is not None:
            process.send_signal(number)
        process.communicate(timeout=SECONDS)

    def until(self, awaited: str, is_there: Callable[[SqliteStore], object]) -> None:
        deadline = time.monotonic() + SECONDS
        with closing(SqliteStore(self.database, mode="read")) as store:
            while not is_there(store):
                if time.monotonic() > deadline:
                    sys.exit(f"no {awaited} within {SECONDS:g} s")
                time.sleep(0.05)

    def until_waiting(self, name: str) -> None:
        self.until(f"waiting {name}", lambda store: latest(store, name).status == "waiting")

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "noetl.cli", *arguments]

    def _options(self) -> dict[str, object]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return {"cwd": self.folder, "env": self.environment, "text": True, **pipes}


def latest(store: SqliteStore, name: str) -> Summary:
    """The last run of a playbook; one that is not there yet has no status."""
    return next(iter(store.summaries(name=name, limit=1)), Summary("", name, "", "", 0.0))


def count(store: SqliteStore, name: str, event: str) -> int:
    return sum(row.type == event for row in store.read(latest(store, name).execution_id))


def run_to_the_end(workspace: Workspace) -> None:
    for file in sorted(workspace.folder.glob("[a-z]*.yaml")):
        if file.stem not in (*OPERATED, *LEFT_OUT):
            workspace.noetl("run", file.name, codes=(0, 1))


def signal_and_pause(workspace: Workspace) -> None:
    for name in ("wait_signal", "classic_listen"):
        with workspace.background("run", f"{name}.yaml") as process:
            workspace.until_waiting(name)
            workspace.noetl("runs", "pause", f"last:{name}")
            workspace.until(f"paused {name}", lambda store, name=name: latest(store, name).status == "paused")  # type: ignore[misc]
            workspace.noetl("runs", "signal", f"last:{name}", "first", "--data", '{"by": "first"}', "--id", "1")
            workspace.noetl("runs", "signal", f"last:{name}", "second", "--data", '{"by": "second"}')
            workspace.noetl("runs", "resume", f"last:{name}", codes=(0, 1))
            workspace.end(process)


def cancel(workspace: Workspace) -> None:
    with workspace.background("run", "child_cancelled.yaml") as process:
        workspace.until_waiting("_asking")
        workspace.noetl("runs", "cancel", "last:child_cancelled", "--reason", "no longer needed")
        workspace.end(process)


def retry_and_fork(workspace: Workspace) -> None:
    workspace.noetl("runs", "retry", "last:retried", codes=(0, 1))
    workspace.noetl("runs", "retry", "last:retried_items", "--failed-items", codes=(0, 1))
    workspace.noetl("runs", "fork", "last:chain", "--at", "12", codes=(0, 1))


def fire_schedule(workspace: Workspace) -> None:
    with workspace.background("dev", "--port", "0", "--log-level", "error") as server:
        workspace.until("server", lambda store: workspace.database.with_name(f"{workspace.database.name}.dev").exists())
        workspace.noetl("register", "chain.yaml")
        workspace.noetl("schedule", "add", "often", "crash/chain", "--every", "2s")
        fired = "playbook.processed"
        workspace.until(
            "scheduled run", lambda store: not latest(store, "chain").local and count(store, "chain", fired)
        )
        workspace.noetl("schedule", "delete", "often")
        workspace.end(server, signal.SIGTERM)


def leave_open(workspace: Workspace) -> None:
    for name in ("wait_signal", "child_paused"):
        with workspace.background("run", f"{name}.yaml") as process:
            workspace.until_waiting(name)
            workspace.end(process, signal.SIGINT)
    done = "loop.iteration.done"
    for items, command in enumerate((("run", "killed_loop.yaml"), ("runs", "resume", "last:killed_loop")), start=1):
        with workspace.background(*command) as process:
            workspace.until("item", lambda store, items=items: count(store, "killed_loop", done) >= items)  # type: ignore[misc]
            workspace.end(process, signal.SIGKILL)


def compressed(database: Path, folder: Path) -> bytes:
    """One file, without the names of this machine."""
    copy = folder / "copy.db"
    copy_database(database, copy)
    with closing(apsw.Connection(str(copy))) as connection:
        connection.create_scalar_function("base_name", os.path.basename)
        connection.execute("DELETE FROM worker_session; DELETE FROM token; UPDATE playbook SET file = base_name(file)")
        connection.execute("VACUUM")
    return lzma.compress(copy.read_bytes(), preset=9 | lzma.PRESET_EXTREME)


def target() -> Path:
    names = (noetl.__version__, *(f"{noetl.__version__}-{number}" for number in range(2, 100)))
    return next(file for name in names if not (file := HERE / f"{name}.db.xz").exists())


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="history") as name:
        workspace = Workspace(Path(name))
        for part in (run_to_the_end, signal_and_pause, cancel, retry_and_fork, fire_schedule, leave_open):
            print(part.__name__, flush=True)
            part(workspace)
        data, file = compressed(workspace.database, workspace.folder), target()
    if len(data) > MAX_BYTES:
        sys.exit(f"the history has {len(data):,} bytes; at most {MAX_BYTES:,} are stored")
    file.write_bytes(data)
    print(f"{file.relative_to(HERE.parents[1])}: {len(data):,} bytes")


if __name__ == "__main__":
    main()
