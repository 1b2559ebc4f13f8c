"""Claims work while a worker has free slots; after `stop` it finishes running tasks and returns the other leases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from noetl.engine.commands import Report
from noetl.errors import AuthError, NoetlError
from noetl.store.store import WorkerDirective
from noetl.worker.worker import Worker

GRACE_SECONDS = 30.0  # time in which running tasks may finish after `stop`
HAND_BACK_SECONDS = 5.0  # maximum time for the server to confirm returned leases
RETRY_SECONDS = 1.0  # pause after a failed claim


class WorkerLoop:
    """Runs a worker until `stop`. `on_error` is called with errors that do not stop it."""

    def __init__(self, worker: Worker, on_error: Callable[[str], None], grace: float = GRACE_SECONDS) -> None:
        self.worker, self.on_error, self.grace = worker, on_error, grace
        self.stopped = asyncio.Event()
        self.stop_now = asyncio.Event()
        self.rejection: AuthError | None = None
        self._claiming: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Start nothing new; the second call stops at once."""
        if self.stopped.is_set():
            self.stop_now.set()
        self.stopped.set()

    def obey(self, directive: WorkerDirective) -> None:
        """Follow the directive of an operator, which every heartbeat repeats."""
        if directive and self.worker.accepting:
            self.worker.accepting = False
            self.on_error("draining: running work finishes, no new work is claimed")
            if self._claiming is not None:
                self._claiming.cancel()
        if directive == "stop":
            self.stopped.set()

    def reject(self, error: AuthError) -> None:
        self.rejection = self.rejection or error
        self.stop_now.set()
        self.stopped.set()

    async def run(self) -> None:
        """Run until `stop`, then until the work is done or returned. AuthError if the server rejects the token."""
        self._claiming = asyncio.create_task(self._claim())
        await self.stopped.wait()
        self._claiming.cancel()
        await asyncio.gather(self._claiming, return_exceptions=True)
        await self._drain()
        if self.rejection is not None:
            raise self.rejection

    async def _claim(self) -> None:
        while True:
            try:
                if self.worker.free > 0:
                    await self.worker.claim()
                else:
                    await asyncio.wait(self.worker.tasks, return_when=asyncio.FIRST_COMPLETED)
            except AuthError as error:
                self.reject(error)
                return
            except Exception as error:  # any error: the worker keeps claiming
                self.on_error(str(error) if isinstance(error, NoetlError) else f"{type(error).__name__}: {error}")
                await asyncio.sleep(RETRY_SECONDS)
            self._check_fault()

    def _check_fault(self) -> None:
        """Report the error of a dropped lease, which expires; stop if the server rejected the token."""
        fault, self.worker.fault = self.worker.fault, None
        if isinstance(fault, AuthError):
            self.reject(fault)
        elif fault is not None:
            self.on_error(f"a lease was dropped: {type(fault).__name__}: {fault}")

    async def _drain(self) -> None:
        self.worker.draining = True
        stop_now = asyncio.create_task(self.stop_now.wait())
        with suppress(TimeoutError):
            async with asyncio.timeout(self.grace):
                while self.worker.tasks and not stop_now.done():
                    await asyncio.wait([*self.worker.tasks, stop_now], return_when=asyncio.FIRST_COMPLETED)
        stop_now.cancel()
        works = [self.worker.reporters[lease].work for lease in self.worker.leases]
        await self.worker.stop()
        self._check_fault()
        if self.rejection is None:
            report = self.worker.link.report
            returned = (
                report(work.execution, Report(work.fence, (), hand_back=True, grant=work.claim)) for work in works
            )
            with suppress(TimeoutError):
                async with asyncio.timeout(HAND_BACK_SECONDS):
                    await asyncio.gather(*returned, return_exceptions=True)
