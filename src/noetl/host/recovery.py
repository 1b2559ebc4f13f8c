"""Finds the unfinished work of a crashed server: ready work, children to start, ends of children to deliver."""

from __future__ import annotations

from noetl.engine.state import Execution
from noetl.errors import NoetlError, NotFound, StoreError
from noetl.host.background import BackgroundCommands
from noetl.host.children import Families
from noetl.host.dispatcher import Dispatcher
from noetl.host.unheard import UnheardChildren
from noetl.runtime.runtime import Runtime

ORPHANS_PER_SCAN = 100


class Recovery:
    def __init__(
        self, runtime: Runtime, dispatcher: Dispatcher, families: Families, commands: BackgroundCommands
    ) -> None:
        self.runtime, self.dispatcher, self.families, self.commands = runtime, dispatcher, families, commands
        self.unheard = UnheardChildren(runtime.store, runtime.thread.ask, self._try_to_read, self._may_start_others)

    async def recover_once(self) -> None:
        for pool, claims in list(self.dispatcher.queue.idle_claims.items()):
            if claims:
                await self.dispatcher.find_ready(pool)
        backoff = self.commands.backoff
        orphans = await self.runtime.thread.ask(self.runtime.store.orphans, ORPHANS_PER_SCAN + len(backoff))
        unheard = await self.unheard.scan()
        for child in {child for children in unheard.values() for child in children}:
            await self._try_to_read(child)
        to_sync = {*orphans, *unheard, *self.families.failed}
        self.families.add(execution for execution in to_sync if not backoff.is_paused(execution))

    async def _try_to_read(self, execution: str) -> Execution | None:
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
