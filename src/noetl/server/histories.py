"""Caches and connections with which endpoints read the past of executions without delaying commits."""

from __future__ import annotations

from noetl.clock import Clock
from noetl.runtime.outlines import Outlines
from noetl.runtime.replays import new_replays
from noetl.runtime.run_indexes import RunIndexes
from noetl.runtime.store_thread import InStore
from noetl.server.frames import Feeds
from noetl.server.second_connection import SecondConnection
from noetl.server.sse import Streams
from noetl.server.stored_values import StoredValues
from noetl.store.store import Store


class Histories:
    def __init__(self, store: Store, clock: Clock, in_store: InStore, streams: Streams) -> None:
        self.run_indexes, self.replays = RunIndexes(), new_replays()
        self.outlines = Outlines(self.run_indexes.index_blocks)
        self.reader = SecondConnection(store, in_store, "reader")  # for long reads
        self.stored_values = StoredValues(self.reader)
        self._frame_reader = SecondConnection(store, in_store, "frames")
        self.feeds = Feeds(streams, clock, self.outlines, self._frame_reader)

    def close(self) -> None:
        self.reader.close()
        self._frame_reader.close()
