"""Starting an execution under an id that was chosen before, so that whoever starts it again starts the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noetl.server.api import Api


async def begin(
    api: Api, execution: str, path: str, version: int | None, payload: dict[str, Any], ctx: dict[str, Any]
) -> None:
    """Start an execution of a registered playbook, unless it has been started. NoetlError says why it can't be."""
    if await is_begun(api, execution):
        return
    digest = await api.playbooks.named(path, version)
    await api.playbooks.check_keychain(api.runtime.playbook(digest))
    if execution in api.runtime.cells:  # while we looked
        return
    await api.service.start(digest, payload, ctx, execution)


async def is_begun(api: Api, execution: str) -> bool:
    """Whether somebody has started it."""
    return execution in api.runtime.cells or bool(await api.in_store(api.store.seq, execution))
