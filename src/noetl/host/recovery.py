"""Finds the unfinished work of a crashed server: ready work, children to start, ends of children to deliver, children
to cancel, pause and resume with their parents."""

from __future__ import annotations

from noetl.clock import uptime
from noetl.engine.state import Execution
from noetl.errors import NoetlError, NotFound, StoreError
from noetl.host.background import BackgroundCommands
from noetl.host.children import Families, waits_for_children
from noetl.host.dispatcher import Dispatcher
from noetl.runtime.runtime import Runtime

STRAYS_PER_SCAN = 100
READ_SECONDS = 30.0  # maximum time until a parent whose log keeps changing is read
READS_PER_SCAN = 100


class Recovery:
    """Parents that wait for a child that has ended or was never started are found by a few queries, without folding
    logs. A parent whose log has not changed between two scans is read once, and the ids of the children it waits for
    are cached until its log changes. If one of these children is not open, the parent has to be notified."""

    def __init__(
        self, runtime: Runtime, dispatcher: Dispatcher, families: Families, commands: BackgroundCommands
    ) -> None:
        self.runtime, self.dispatcher, self.families, self.commands = runtime, dispatcher, families, commands
        self.sightings: dict[str, tuple[int, float]] = {}  # by parent, its seq, and when it was read or first found
        self.awaited: dict[str, tuple[int, frozenset[str]]] = {}  # by parent, its seq when read, and its children

    async def recover_once(self) -> None:
        for pool, claims in list(self.dispatcher.queue.idle_claims.items()):
            if claims:
                await self.dispatcher.find_ready(pool)
        backoff = self.commands.backoff
        limit = STRAYS_PER_SCAN + len(backoff)
        strays = await self.runtime.thread.ask(self.runtime.store.stray_children, limit)
        unnotified = await self.find_unnotified_parents()
        for child in dict.fromkeys(
            [*strays, *(child for children in unnotified.values() for child in sorted(children))]
        ):
            state = await self.read(child)
            if state is not None and state.parent is not None and child in strays:
                await self.read(state.parent[0])
        to_sync = dict.fromkeys([*strays, *unnotified, *self.families.failed])
        self.families.add(execution for execution in to_sync if not backoff.is_paused(execution))

    async def find_unnotified_parents(self) -> dict[str, frozenset[str]]:
        """Parents that wait for children that are not open, and these children."""
        store, ask = self.runtime.store, self.runtime.thread.ask
        digests = [digest for digest in await ask(store.open_digests) if await self._may_start_others(digest)]
        parents = dict(await ask(store.open_of, digests)) if digests else {}
        self.awaited = {name: awaited for name, awaited in self.awaited.items() if parents.get(name) == awaited[0]}
        before, self.sightings = self.sightings, {}
        now, reads = uptime(), 0
        for name, seq in parents.items():
            last_seq, since = before.get(name, (-1, now))
            self.sightings[name] = seq, since
            readable = last_seq == seq or now - since > READ_SECONDS
            if name not in self.awaited and readable and reads < READS_PER_SCAN:
                reads += 1
                if (state := await self.read(name)) is not None:
                    self.sightings[name] = seq, now
                    self.awaited[name] = state.seq, frozenset(parked.key for parked in waits_for_children(state))
        if not any(children for _, children in self.awaited.values()):
            return {}
        open_children = frozenset(await ask(store.open_children))
        missing = {parent: children - open_children for parent, (_, children) in self.awaited.items()}
        return {parent: children for parent, children in missing.items() if children}

    async def read(self, execution: str) -> Execution | None:
        """The stored state; None if the execution does not exist or cannot be read."""
        if self.commands.backoff.is_paused(execution):
            return None
        try:
            return await self.runtime.committer.stored_state(execution)
        except NotFound:  # a child that is still to be started, or a missing playbook
            return None
        except StoreError:
            raise
        except Exception as error:  # one failing execution must not delay the others
            self.commands.back_off(execution, error)
            return None

    async def _may_start_others(self, digest: str) -> bool:
        if digest in self.families.starts_others:
            return self.families.starts_others[digest]
        try:
            return self.families.remember(digest, (await self.runtime.playbooks.load(digest)).playbook)
        except NoetlError:  # reported when an execution of it is handled
            return True
