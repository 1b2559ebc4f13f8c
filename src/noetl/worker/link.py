"""The interface of a worker to the engine, and the reports of one lease over it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from noetl.engine import events as e
from noetl.engine.commands import Claim, Report
from noetl.keychain.keychain import StoredCredential
from noetl.reference import Reference, TooLarge
from noetl.worker.playbook_cache import RunnablePlaybook
from noetl.worker.work import Work

MAX_FACTS = 400
"""Facts after which a report is sent, even if the playbook commits only once per step. Each report costs a decision; a
decision about many more facts would delay everybody else."""


class StoredContents(Protocol):
    async def read(self, reference: Reference) -> Any:
        """The value, its checksum verified, or TooLarge."""

    async def read_json(self, reference: Reference) -> bytes | TooLarge:
        """The JSON of the value, or TooLarge."""

    async def put_in_bucket(self, bucket: str, key: str, content: bytes) -> None:
        """Copy content of the next report to a bucket of NATS, if NATS is available."""


class Link(Protocol):
    most_content: int | None  # maximum size of one content of a report; None: no limit

    @property
    def contents(self) -> StoredContents: ...

    async def claim(self, command: Claim) -> list[Work]: ...

    async def report(self, execution: str, report: Report) -> tuple[bool, list[Work]]:
        """Whether the worker still holds the lease, and the work of its claim."""

    async def holds(self, execution: str, fence: int) -> bool:
        """Whether the worker still holds the lease. Waits for a heartbeat if necessary."""

    def paused(self, execution: str) -> bool:
        """Whether an execution must start nothing new, according to the latest heartbeat."""

    @property
    def playbook(self) -> Callable[[str], RunnablePlaybook]:
        """Finds the playbook of a lease by its digest."""

    async def credential(self, execution: str, name: str) -> StoredCredential:
        """A stored credential, decrypted; NoetlError if there is none."""


class Rejected(Exception):
    """The worker no longer holds the lease, and drops the work."""


class Reporter:
    """Collects the facts of a lease and reports them in batches: while one is in flight, the next one gathers."""

    def __init__(self, link: Link, work: Work) -> None:
        self.link, self.work = link, work
        self.facts: list[e.Event] = []
        self.blobs: dict[str, bytes] = {}  # content that the facts refer to, by key
        self.more: list[Work] = []  # work that reports were answered with
        self._reported = 0
        self._sending = asyncio.Lock()
        self._void = False
        self._fault: BaseException | None = None  # of a report: it is unknown whether its facts were accepted

    @property
    def is_full(self) -> bool:
        return len(self.facts) > MAX_FACTS

    async def send(self, *, claim: Claim | None = None, last: bool = False, hand_back: bool = False) -> None:
        """Report the collected facts; Rejected if the lease is void. After the `last` report it may have ended."""
        async with self._sending:
            if self._fault is not None:
                raise self._fault
            if self._void:
                raise Rejected
            facts = tuple(self.facts)
            self.facts.clear()
            if not facts and not hand_back:
                return
            blobs = tuple(self.blobs.items())
            report = Report(self.work.fence, facts, self._reported, claim, hand_back, blobs, grant=self.work.claim)
            try:
                is_held, more = await self.link.report(self.work.execution, report)
            except BaseException as error:
                self._fault = error
                raise
            self._reported += len(facts)
            self.more += more
            for key, _ in blobs:
                self.blobs.pop(key, None)
            self._void = not is_held and not last and not hand_back
            if self._void:
                raise Rejected

    async def send_early(self) -> None:
        """Report the collected facts while their task runs. The next report raises what this one raises."""
        with suppress(Exception):  # the next report raises it
            await self.send()
