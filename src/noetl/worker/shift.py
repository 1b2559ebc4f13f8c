"""A worker's time at work: it claims as long as it has free slots, and at the end finishes what it can."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from noetl.engine.commands import Report
from noetl.errors import AuthError, NoetlError
from noetl.worker.worker import Worker

GRACE_SECONDS = 30.0
"""How long running tasks may take to finish after it was told to end."""
HAND_BACK_SECONDS = 5.0
"""How long the server may take to answer that it has the leases again."""
PAUSE_SECONDS = 1.0
"""After a claim that went wrong."""


class Shift:
    """Claims work for a worker until it is told to stop."""

    def __init__(self, worker: Worker, complain: Callable[[str], None], grace: float = GRACE_SECONDS) -> None:
        self.worker, self.complain, self.grace = worker, complain, grace
        self.ended = asyncio.Event()
        self.hurry = asyncio.Event()
        self.refused: AuthError | None = None

    def end(self) -> None:
        """Begin nothing new; asked twice, stop at once."""
        if self.ended.is_set():
            self.hurry.set()
        self.ended.set()

    def refuse(self, error: AuthError) -> None:
        """The server does not let us in: there is nothing to wait for."""
        self.refused = self.refused or error
        self.hurry.set()
        self.ended.set()

    async def run(self) -> None:
        """Until it is told to end and the work is done or handed back; AuthError if the server does not let us in."""
        claiming = asyncio.create_task(self._claim())
        await self.ended.wait()
        claiming.cancel()
        await asyncio.gather(claiming, return_exceptions=True)
        await self._drain()
        if self.refused is not None:
            raise self.refused

    async def _claim(self) -> None:
        while True:
            try:
                if self.worker.free > 0:
                    await self.worker.claim()
                else:
                    await asyncio.wait(self.worker.tasks, return_when=asyncio.FIRST_COMPLETED)
            except AuthError as error:
                self.refuse(error)
                return
            except Exception as error:  # any error: the worker keeps claiming
                self.complain(str(error) if isinstance(error, NoetlError) else f"{type(error).__name__}: {error}")
                await asyncio.sleep(PAUSE_SECONDS)
            self._look_at_fault()

    def _look_at_fault(self) -> None:
        """A lease that broke is dropped, and the server will notice; the worker goes on."""
        fault, self.worker.fault = self.worker.fault, None
        if isinstance(fault, AuthError):
            self.refuse(fault)
        elif fault is not None:
            self.complain(f"a lease was dropped: {type(fault).__name__}: {fault}")

    async def _drain(self) -> None:
        """Let tasks finish for a while; then stop them, and give their leases back."""
        self.worker.draining = True
        hurry = asyncio.create_task(self.hurry.wait())
        with suppress(TimeoutError):
            async with asyncio.timeout(self.grace):
                while self.worker.tasks and not hurry.done():
                    await asyncio.wait([*self.worker.tasks, hurry], return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        left = list(self.worker.leases)
        await self.worker.stop()
        self._look_at_fault()
        if self.refused is None:
            await self._hand_back(left)

    async def _hand_back(self, leases: list[tuple[str, int]]) -> None:
        report = self.worker.link.report
        with suppress(TimeoutError, NoetlError):
            async with asyncio.timeout(HAND_BACK_SECONDS):
                await asyncio.gather(
                    *(report(execution, Report(fence, (), hand_back=True)) for execution, fence in leases),
                    return_exceptions=True,
                )
