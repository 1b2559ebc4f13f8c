"""Reports on their way to a server: those that gather while others travel go in one request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from noetl.errors import NoetlError, NotFound
from noetl.worker import wire

AT_ONCE = 2
"""Requests on their way at the same time."""
REPORTS, REPORT_BYTES = 200, 2 << 20
"""How much travels in one request."""


class Unanswerable(NoetlError):
    """The server does not take the call, and never will."""


class Told(NamedTuple):
    """A report on its way."""

    data: bytes
    answer: asyncio.Future[wire.Verdicts]


class Reports:
    """Sends reports. `post` sends a list of them and gives the list of answers, or raises."""

    def __init__(self, post: Callable[[bytes], Awaitable[bytes]]) -> None:
        self.post = post
        self.gathered: list[Told] = []
        self.sending = 0
        """Senders at work. One that has found nothing more to send does not count, though its task may still live."""
        self.tasks: set[asyncio.Task[None]] = set()

    async def tell(self, request: wire.ReportRequest) -> wire.Verdicts:
        """What became of it."""
        answer: asyncio.Future[wire.Verdicts] = asyncio.get_running_loop().create_future()
        self.gathered.append(Told(wire.encode(request), answer))
        if self.sending < AT_ONCE:
            self.sending += 1
            task = asyncio.create_task(self._send())
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        return await answer

    async def _send(self) -> None:
        try:
            while batch := self._next():
                await self._send_all(batch)
        finally:
            self.sending -= 1

    async def _send_all(self, batch: list[Told]) -> None:
        try:
            await self._exchange(batch)
        except (NotFound, Unanswerable) as error:  # one report that makes no sense must not take others with it
            if len(batch) == 1:
                _refuse(batch, error)
            for one in batch if len(batch) > 1 else ():
                await self._alone(one)
        except Exception as error:
            _refuse(batch, error)

    async def _alone(self, one: Told) -> None:
        try:
            await self._exchange([one])
        except Exception as error:
            _refuse([one], error)

    async def _exchange(self, batch: Sequence[Told]) -> None:
        data = await self.post(b"[%b]" % b",".join(one.data for one in batch))
        verdicts: list[wire.Verdicts] = wire.decode_as(list[wire.Verdicts], data)
        if len(verdicts) != len(batch):
            raise wire.BadMessage(f"{len(verdicts)} answers to {len(batch)} reports")
        for one, verdict in zip(batch, verdicts, strict=True):
            if not one.answer.done():
                one.answer.set_result(verdict)

    def _next(self) -> list[Told]:
        """What has gathered, without what nobody waits for any more."""
        waiting = [one for one in self.gathered if not one.answer.done()]
        size, count = 0, 0
        while count < min(len(waiting), REPORTS) and (count == 0 or size + len(waiting[count].data) <= REPORT_BYTES):
            size += len(waiting[count].data)
            count += 1
        self.gathered = waiting[count:]
        return waiting[:count]


def _refuse(batch: Sequence[Told], error: Exception) -> None:
    for one in batch:
        if not one.answer.done():
            one.answer.set_exception(error)
