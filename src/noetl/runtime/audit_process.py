"""Verifies a large log in two processes: one folds it, the other checks its rows and everything that needs no fold.

Each takes about half of the time. The second process is `python -m noetl.runtime.audit_process`: it reads a request
from standard input and writes the violations to standard output.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from operator import attrgetter

import msgspec

from noetl.engine.history.verify import Violation
from noetl.errors import NoetlError
from noetl.runtime.audit import Audit, Report
from noetl.store.open import open_store
from noetl.store.store import Store, Summary

LARGE = 200_000
"""Number of events above which a second process is faster."""


class AuditRequest(msgspec.Struct):
    """Input of the second process. `db` may contain a password, so it is not a command-line argument."""

    db: str
    execution: str


def verify_large(db: str, store: Store, summary: Summary, report: Report | None) -> list[Violation]:
    """The violations of an execution, ordered by event number."""
    command = [sys.executable, "-P", "-m", "noetl.runtime.audit_process"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdin is not None
            assert other.stdout is not None
            other.stdin.write(msgspec.json.encode(AuditRequest(db, summary.execution_id)))
            other.stdin.close()
            violations = Audit(store).of(summary, report, "fold")
            output = other.stdout.read()
        finally:
            if other.poll() is None:
                other.kill() if sys.exc_info()[0] is not None else other.wait()
    if other.returncode != 0:
        raise NoetlError(f"the second verification process exited with code {other.returncode}")
    violations += msgspec.json.decode(output, type=list[Violation])
    return sorted(set(violations), key=attrgetter("seq"))


def main() -> None:
    gc.freeze()
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=AuditRequest)
    store = open_store(request.db, mode="read")
    try:
        listed = store.summaries(prefix=request.execution, limit=1)
        violations = Audit(store).of(listed[0], part="rows") if listed else []
    finally:
        store.close()
    sys.stdout.buffer.write(msgspec.json.encode(violations))


if __name__ == "__main__":
    main()
