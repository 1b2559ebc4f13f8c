"""A connection that closes itself when the server stops responding.

The kernel detects a machine that is gone (`tcp_user_timeout`). It does not detect a connection pooler or a proxy that
acknowledges every packet and never responds: a noetl server would wait for it for ever.
"""

from __future__ import annotations

from collections.abc import Generator
from time import monotonic
from typing import Any, TypeVar

import psycopg

RESPONSE_SECONDS = 60.0  # maximum time without any data of a response; a lock is awaited for 30 s at most

Result = TypeVar("Result")


class WatchedConnection(psycopg.Connection[tuple[Any, ...]]):
    """Closes itself, with an OperationalError, if the server stays silent after a statement while `watched`."""

    watched = True

    def wait(self, gen: Generator[Any, Any, Result], *args: Any, **options: Any) -> Result:
        return super().wait(self._limited(gen) if self.watched else gen, *args, **options)

    def _limited(self, gen: Generator[Any, Any, Result]) -> Generator[Any, Any, Result]:
        deadline = monotonic() + RESPONSE_SECONDS
        try:
            awaited = next(gen)
            while True:
                ready = yield awaited
                if ready:  # data arrives, or is taken
                    deadline = monotonic() + RESPONSE_SECONDS
                elif monotonic() > deadline:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"no response within {RESPONSE_SECONDS:g} s")
                awaited = gen.send(ready)
        except StopIteration as end:
            result: Result = end.value
            return result
