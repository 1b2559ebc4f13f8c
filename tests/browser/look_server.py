"""The server of `python -m tests.browser.look`: one per checkout, in the background, until it is idle.

Its folder has the database, `address.json` for those who use it, and `used`, which they touch. The server ends a
quarter of an hour after the last use, or when `address.json` is removed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.acceptance.modes.stage import FreshProcess, until
from tests.browser.packages import locked
from tests.browser.serving import PageServer, page_server

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".noetl" / "look"
ADDRESS, USED, RUNNING, OUTPUT = (FOLDER / name for name in ("address.json", "used", "running.lock", "server.out"))
IDLE_SECONDS = 900.0


def running_server() -> PageServer:
    """The server of this checkout. It is started, or started again if the code or the page is newer."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with locked(FOLDER / "start.lock"):
        USED.touch()
        if not _is_up() or _changed_at() > ADDRESS.stat().st_mtime:
            stop()
            with OUTPUT.open("wb") as output:
                command = [sys.executable, "-m", __spec__.name if __spec__ else __name__]
                process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, start_new_session=True)
            until(lambda: _is_up() or process.poll() is not None)
    server = PageServer(FOLDER)
    if not ADDRESS.exists():
        raise RuntimeError(f"the server did not start: see {OUTPUT}")
    server.url, server.token = json.loads(ADDRESS.read_text())
    return server


def stop() -> None:
    """Stop the server, if it runs, and wait for its end."""
    ADDRESS.unlink(missing_ok=True)
    with suppress(FileNotFoundError), locked(RUNNING):
        pass


def serve() -> None:
    """Run the server until it is stopped or idle."""
    with locked(RUNNING), page_server(FOLDER, FreshProcess) as server, _announced(server):
        process = server.process.process
        assert process is not None
        while ADDRESS.exists() and process.poll() is None and time.time() - USED.stat().st_mtime < IDLE_SECONDS:
            time.sleep(0.2)


@contextmanager
def _announced(server: PageServer) -> Iterator[None]:
    ADDRESS.write_text(json.dumps([server.url, server.token]))
    try:
        yield
    finally:
        ADDRESS.unlink(missing_ok=True)


def _is_up() -> bool:
    return ADDRESS.exists()


def _changed_at() -> float:
    """When the program or the built page was last changed."""
    files = (ROOT / "src" / "noetl").rglob("*")
    return max(file.stat().st_mtime for file in files if "__pycache__" not in file.parts)


if __name__ == "__main__":
    serve()
