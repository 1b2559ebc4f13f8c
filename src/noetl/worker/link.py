"""The interface of a worker to the engine."""

from __future__ import annotations

from typing import Any, Protocol

from noetl.engine.commands import Claim, Report
from noetl.keychain.keychain import StoredCredential
from noetl.model.playbook import Playbook
from noetl.pipeline.plan import PipelinePlan
from noetl.reference import Reference, TooLarge
from noetl.worker.work import Work


class StoredContents(Protocol):
    async def read(self, reference: Reference) -> Any:
        """The value, its checksum verified, or TooLarge."""

    async def read_json(self, reference: Reference) -> bytes | TooLarge:
        """The JSON of the value, or TooLarge."""

    async def put_in_bucket(self, bucket: str, key: str, content: bytes) -> None:
        """Copy content of the next report to a bucket of NATS, if NATS is available."""


class Link(Protocol):
    """The engine, in the same process or over HTTP."""

    most_content: int | None  # maximum size of one content of a report; None: no limit

    @property
    def contents(self) -> StoredContents: ...

    async def claim(self, command: Claim) -> list[Work]: ...

    async def report(self, execution: str, report: Report) -> tuple[bool, list[Work]]:
        """Whether the worker still holds the lease, and the work of its claim."""

    async def holds(self, execution: str, fence: int) -> bool:
        """Whether the worker still holds the lease. Waits for a heartbeat if necessary."""

    def plan(self, digest: str, step: str) -> PipelinePlan: ...

    def paused(self, execution: str) -> bool:
        """Whether an execution must start nothing new, according to the latest heartbeat."""

    def playbook(self, digest: str) -> Playbook: ...

    def folder(self, digest: str) -> str:
        """The folder of a playbook's file on this machine; empty if it has none."""

    def place(self, digest: str, part: str) -> tuple[str, int] | None:
        """The file and line of a part of a playbook, if known."""

    async def credential(self, execution: str, name: str) -> StoredCredential:
        """A stored credential, decrypted; NoetlError if there is none."""
