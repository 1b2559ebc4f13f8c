"""Syncs families of executions when they change."""

from __future__ import annotations

from noetl.host.background import BackgroundCommands
from noetl.host.children import ChildExecutions, Families


class ChildSyncer:
    """A family that fails does not delay the others."""

    def __init__(self, children: ChildExecutions, families: Families, commands: BackgroundCommands) -> None:
        self.children, self.families, self.commands = children, families, commands

    async def sync_once(self) -> None:
        """Wait for a change, and sync the families that have changed."""
        await self.families.changed.wait()
        for execution in self.families.take():
            try:
                await self.children.sync(execution)
                self.commands.backoff.succeed(execution)
                self.families.failed.discard(execution)
            except Exception as error:
                self.commands.back_off(execution, error)
                self.families.failed.add(execution)
