"""A server that is killed while it deals with a schedule: `python dying_server.py DATABASE POINT NOW`.

It dies by SIGKILL when a firing is decided and nothing has started, or when the execution has started and nobody has
noted it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from noetl.clock import SystemClock
from noetl.errors import NotFound
from noetl.server import scheduler
from noetl.server.app import create_app
from noetl.server.service import Service
from noetl.store.open import open_store


async def main(address: str, point: str, now: float) -> None:
    service = Service(open_store(address), SystemClock(), _nothing)
    api = create_app(service).api
    if point == "decided":
        scheduler.start_once = _die
    else:
        scheduler.Scheduler._settle = _die  # type: ignore[method-assign]
    await api.scheduler.look_once(now)


async def _die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def _nothing(*_: Any) -> str:
    raise NotFound("nothing")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
