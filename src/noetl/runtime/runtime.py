"""The parts that every host shares: loaded playbooks and executions, their contents, and the committer."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from noetl.clock import Clock
from noetl.engine.commands import Start
from noetl.engine.state import Execution
from noetl.errors import NotFound, StoreError
from noetl.keychain.keychain import StoredCredential
from noetl.model.actor import Actor
from noetl.model.identity import uuid7
from noetl.runtime.committer import Committer, OnCommit, OnEvents
from noetl.runtime.contents import Contents
from noetl.runtime.loaded_executions import LoadedExecutions
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.runtime.past import Past

if TYPE_CHECKING:
    from noetl.nats.objects import ObjectBuckets

Json = dict[str, Any]
Parent = tuple[str, str, int]  # the id of a parent, its step, and the depth of the child
OpenCredential = Callable[[str], StoredCredential]  # decrypts a credential; NoetlError if there is none. Blocks


OnWarnings = Callable[[Execution], None]  # called with a new execution that has warnings about its payload


def no_credentials(name: str) -> StoredCredential:
    raise NotFound(f"credential {name!r} not found")


class Runtime:
    """The engine on one store, without workers and background loops."""

    def __init__(
        self,
        playbooks: LoadedPlaybooks,
        clock: Clock,
        *,
        shared: bool = False,
        open_credential: OpenCredential = no_credentials,
        buckets: ObjectBuckets | None = None,
        on_events: Sequence[OnEvents] = (),
        on_commit: Sequence[OnCommit] = (),
        on_warnings: OnWarnings = lambda state: None,
        past: Past | None = None,
    ) -> None:
        self.on_warnings = on_warnings
        self.playbooks, self.store, self.thread, self.clock = playbooks, playbooks.store, playbooks.thread, clock
        self.open_credential = open_credential
        self.executions = LoadedExecutions(playbooks)
        self.contents = Contents(self.store, self.thread, buckets)
        self.past = past or Past(playbooks)
        self.committer = Committer(
            self.executions, self.contents, clock, shared=shared, on_events=on_events, on_commit=on_commit
        )

    async def start(
        self,
        digest: str,
        payload: Json,
        ctx: Json,
        execution: str | None = None,
        parent: Parent | None = None,
        actor: Actor | None = None,
        strict_keys: Collection[str] = (),
    ) -> Execution:
        """Start an execution, under a new id unless one is given; NoetlError if the playbook refuses the payload."""
        playbook = await self.playbooks.load(digest)
        warnings = tuple(playbook.check_payload(payload, ctx, strict_keys))
        execution = execution or uuid7(self.clock.now(), os.urandom(8))
        self.executions.create(execution, playbook, digest)
        command = Start(payload, ctx, parent, actor=actor, warnings=warnings)
        try:
            state = (await self.committer.handle(execution, command)).state
        except NotFound:  # dropped with a start of the same id that could not be stored
            raise StoreError(f"the start of {execution} could not be stored; try again") from None
        if warnings:
            self.on_warnings(state)
        return state

    def close(self) -> None:
        self.past.close()
        self.thread.shutdown()
        self.store.close()
