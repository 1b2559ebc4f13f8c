"""Accepts the state of a restored database: voids all earlier leases, so that their work is granted again."""

from __future__ import annotations

from noetl.clock import SystemClock
from noetl.engine.commands import Lost
from noetl.errors import NoetlError, StoreError
from noetl.runtime.loaded_playbooks import LoadedPlaybooks
from noetl.runtime.runtime import Runtime
from noetl.store.store import Store


async def accept_restore(store: Store) -> list[str]:
    """Void all leases, then start an incarnation of the store. Returns the executions that cannot be decided, such as
    damaged ones: their leases stay. Embedded runs void theirs when they are resumed. If it is interrupted, call
    it again."""
    runtime = Runtime(LoadedPlaybooks(store), SystemClock(), shared=True)
    failed: dict[str, None] = {}
    try:
        for execution, fence in store.leases():
            try:
                await runtime.committer.handle(execution, Lost(fence))
            except StoreError:
                raise
            except NoetlError:
                failed[execution] = None
        store.start_incarnation()
    finally:
        runtime.thread.shutdown()
        runtime.past.close()
    return list(failed)
