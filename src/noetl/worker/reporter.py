"""Collects the facts of a lease and reports them in batches: while one report is in flight, the next one gathers."""

from __future__ import annotations

import asyncio

from noetl.engine import events as e
from noetl.engine.commands import Claim, Report
from noetl.worker.link import Link
from noetl.worker.work import Work

MAX_FACTS = 200  # facts after which a report is sent, even if the playbook commits only once per step


class Rejected(Exception):
    """The worker no longer holds the lease, and drops the work."""


class Reporter:
    def __init__(self, link: Link, work: Work) -> None:
        self.link, self.work = link, work
        self.facts: list[e.Event] = []
        self.blobs: dict[str, bytes] = {}  # content that the facts refer to, by key
        self.more: list[Work] = []  # work that reports were answered with
        self._reported = 0
        self._sending = asyncio.Lock()
        self._void = False

    @property
    def is_full(self) -> bool:
        return len(self.facts) > MAX_FACTS

    async def send(self, *, claim: Claim | None = None, last: bool = False, hand_back: bool = False) -> None:
        """Report the collected facts, after the report in flight; Rejected if the lease is void. After the `last`
        report the lease may have ended."""
        async with self._sending:
            if self._void:
                raise Rejected
            facts = tuple(self.facts)
            self.facts.clear()
            if not facts and not hand_back:
                return
            blobs = tuple(self.blobs.items())
            report = Report(self.work.fence, facts, self._reported, claim, hand_back, blobs)
            held, more = await self.link.report(self.work.execution, report)
            self._reported += len(facts)
            self.more += more
            for key, _ in blobs:
                self.blobs.pop(key, None)
            self._void = not held and not last and not hand_back
            if self._void:
                raise Rejected
