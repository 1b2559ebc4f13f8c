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
from noetl.server import scheduler
from noetl.server.app import create_app
from noetl.store.open import open_store


async def main(address: str, point: str, now: float) -> None:
    api = create_app(open_store(address), SystemClock()).api
    if point == "decided":
        api.scheduler.start_once = _die
    else:
        scheduler.Scheduler._settle = _die  # type: ignore[method-assign]
    await api.scheduler.fire_once(now)


async def _die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
