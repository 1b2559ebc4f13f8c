"""Runs `noetl` with a clock that another process sets: `python -P tools/docs/set_clock.py FILE dev ...`.

The modification time of the file is what the clock showed at its access time, and it goes on from there. If the access
time is 0, the clock stands still. The clock of SQLite then shows the same; before that it is left alone, since leases
would expire when the clock is put forward.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from pathlib import Path

import apsw

real_time = time.time


def set_time(file: Path, now: float, *, stopped: bool = False) -> None:
    file.touch()
    os.utime(file, (0 if stopped else real_time(), now))


def main() -> None:
    file = sys.argv.pop(1)

    def shown_time() -> float:
        status = os.stat(file)
        return status.st_mtime + (real_time() - status.st_atime if status.st_atime else 0)

    def database_time(*_: object) -> float:
        return real_time() if os.stat(file).st_atime else shown_time()

    time.time = shown_time
    apsw.connection_hooks.append(lambda connection: connection.create_scalar_function("unixepoch", database_time))
    runpy.run_module("noetl.cli", run_name="__main__")


if __name__ == "__main__":
    main()
