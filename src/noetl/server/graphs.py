"""The graphs of stored playbooks as JSON: each laid out once, in a compile process, and kept while they are used."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from noetl.errors import Conflict, NotFound, PlaybookInvalid
from noetl.latest import Latest
from noetl.runtime.loaded_playbooks import single_flight
from noetl.runtime.store_thread import StoreThread
from noetl.server.compile_process import Part
from noetl.server.compiler import PlaybookCompiler
from noetl.server.problems import Refused
from noetl.store.store import Store

MAX_GRAPHS = 500
MAX_BYTES = 32 << 20


class GraphKey(NamedTuple):
    digest: str
    part: Part


class Graphs:
    def __init__(self, store: Store, thread: StoreThread, compiler: PlaybookCompiler) -> None:
        self.store, self.thread, self.compiler = store, thread, compiler
        self._cache: Latest[GraphKey, bytes] = Latest(MAX_GRAPHS)
        self._drawing: dict[GraphKey, asyncio.Task[bytes]] = {}

    async def get(self, caller: str, digest: str, *, run_row: bool) -> bytes:
        """The graph of a stored playbook; NotFound if there is none, Conflict if this version cannot read it."""
        key = GraphKey(digest, "run_graph" if run_row else "graph")
        if (graph := self._cache.get(key)) is not None:
            self._cache.move_to_end(key)
            return graph
        return await single_flight(self._drawing, key, lambda: self._draw(caller, key))

    async def _draw(self, caller: str, key: GraphKey) -> bytes:
        stored = await self.thread.ask(self.store.playbook, key.digest)
        if stored is None:
            raise NotFound(f"playbook {key.digest!r} not found")
        file, text = stored
        compiled = await self.compiler.compile(caller, text, file, whole=False, stored=True, parts=[key.part])
        if not compiled.digest:
            reason = PlaybookInvalid(compiled.problems)
            raise Conflict(f"this version of noetl cannot read the stored playbook {file}: {reason}")
        if key.part not in compiled.parts:
            raise Refused(422, f"the graph of the playbook {file} takes too long to lay out")
        self._cache[key] = graph = compiled.parts[key.part]
        while len(self._cache) > 1 and sum(map(len, self._cache.values())) > MAX_BYTES:
            self._cache.popitem(last=False)
        return graph
