"""The language with the tool kinds that are installed on this server: described once, in a compile process."""

from __future__ import annotations

import asyncio

from noetl.runtime.loaded_playbooks import single_flight
from noetl.server.compile_process import LanguagePart
from noetl.server.compiler import PlaybookCompiler


class LanguageDescription:
    def __init__(self, compiler: PlaybookCompiler) -> None:
        self.compiler = compiler
        self._parts: dict[LanguagePart, bytes] = {}
        self._describing: dict[LanguagePart, asyncio.Task[bytes]] = {}

    async def get(self, caller: str, part: LanguagePart) -> bytes:
        """A part of the description as JSON; NoetlError if an installed kind cannot be used."""
        if part not in self._parts:
            self._parts[part] = await single_flight(
                self._describing, part, lambda: self.compiler.describe(caller, part)
            )
        return self._parts[part]
