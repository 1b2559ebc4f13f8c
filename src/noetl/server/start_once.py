"""Starts executions under ids that were chosen before, so that a repeated start is the same execution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noetl.server.api import Api


async def start_once(
    api: Api, execution: str, path: str, version: int | None, payload: dict[str, Any], ctx: dict[str, Any]
) -> None:
    """Start an execution of a registered playbook, unless it was started before; NoetlError if it cannot start."""
    if await is_started(api, execution):
        return
    digest = await api.playbooks.registered(path, version)
    await api.playbooks.check_keychain(api.runtime.playbook(digest))
    if execution in api.runtime.cells:  # started in the meantime
        return
    await api.service.start(digest, payload, ctx, execution)


async def is_started(api: Api, execution: str) -> bool:
    return execution in api.runtime.cells or bool(await api.in_store(api.store.seq, execution))
