"""The last commit to a database, recorded outside of it, which reveals a database that went backwards.

A database that was restored from a copy, or whose write-ahead log was truncated, is consistent in itself: only a record
outside of it reveals the missing commits. After a commit, a process records its last event (execution, seq and hash) in
memory and in a file. The next process that opens the database looks for that event.

**The record may lag, and never leads.** It is written after the commit and is not synced: the death of a process loses
nothing of it, and after a power cut it may be older than the database. Of two processes that commit at the same time
the earlier one may write last; then the record lags by one commit. With `synchronous=normal` a commit may be lost in a
power cut although it was recorded: that is reported like any other loss.

**Incarnations.** The database has a list of random ids. The first one names the database, and a record of another one
is ignored. Accepting a restored state adds an id: records of earlier incarnations are then void, in the file of every
server. A record of an incarnation that the database does not list shows that it went backwards.

**Pruning** removes events. It stores the latest end of a removed execution, and a minute for servers whose clocks
differ; a missing event from before that time was removed.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from shlex import quote
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from noetl.errors import DatabaseBehind
from noetl.store.database import Database, ExecutionKey, id_of
from noetl.timestamps import rfc3339

RECORD = Struct("!32s16sq16sd")  # as `RecordedCommit`
CHECKSUM = Struct("!I")
NO_EXECUTION = bytes(16)


class RecordedCommit(NamedTuple):
    """The last event of a commit; without an execution, the start of an incarnation."""

    origin: bytes  # the ids of the database and of its incarnation
    execution: bytes
    seq: int
    hash: bytes
    at: float

    @property
    def database(self) -> bytes:
        return self.origin[:16]

    @property
    def incarnation(self) -> bytes:
        return self.origin[16:]


class MissingCommit(NamedTuple):
    execution: str  # empty if it is the start of an incarnation
    seq: int
    message: str


class Identity(NamedTuple):
    incarnations: list[bytes]
    pruned: float  # when the last of the removed executions ended, at the latest

    @property
    def origin(self) -> bytes:
        return self.incarnations[0] + self.incarnations[-1]


class LastCommit:
    """`address` names the database in messages and commands; without a file the record is in memory only."""

    def __init__(self, database: Database, address: str, file: Path | None) -> None:
        self._db, self.address, self.file = database, address, file
        self._descriptor: int | None = None
        self._origin: bytes | None = None  # None until `open`: nothing is recorded
        self._last: tuple[bytes, int, bytes, float] | None = None  # of this process
        self._behind: DatabaseBehind | None = None

    def open(self) -> None:
        """Record commits from here on. DatabaseBehind if the database does not have the last one in the file."""
        recorded = self._read()
        if recorded is not None and (missing := self._missing(recorded)) is not None:
            raise DatabaseBehind(missing.message)
        self._origin = self._identity().origin

    def missing(self) -> MissingCommit | None:
        """The commit in the file, if the database does not have it."""
        recorded = self._read()
        return None if recorded is None else self._missing(recorded)

    def check(self) -> None:
        """DatabaseBehind, now and on every later call, if the database lacks the last commit of this process, or if a
        restore was accepted: the executions in memory then belong to another history."""
        if self._behind is None and self._origin is not None:
            last = RecordedCommit(self._origin, *self._last) if self._last is not None else None
            missing = None if last is None else self._missing(last)
            if missing is not None:
                self._behind = DatabaseBehind(missing.message)
            elif self._identity().origin != self._origin:
                self._behind = DatabaseBehind(
                    f"{self.address} was restored while this process used it: restart this process"
                )
        self.require()

    def require(self) -> None:
        """DatabaseBehind if a check has failed."""
        if self._behind is not None:
            raise self._behind

    def record(self, execution: bytes, seq: int, hash: bytes, at: float) -> None:
        """Record the last event of a commit that is durable."""
        if self._origin is None:
            return
        self._last = (execution, seq, hash, at)
        if self.file is None:
            return
        data = RECORD.pack(self._origin, execution, seq, hash, at)
        try:
            os.pwrite(self._descriptor or self._open(self.file), data + CHECKSUM.pack(crc32(data)), 0)
        except OSError:  # the folder cannot be written: the record is in memory only
            self.file = None

    def start_incarnation(self) -> None:
        """Accept the present state of the database: records of earlier incarnations are void."""
        self._db.write("add_incarnation", secrets.token_hex(16))
        self._origin = self._identity().origin
        self.record(NO_EXECUTION, 0, NO_EXECUTION, time.time())

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _open(self, file: Path) -> int:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._descriptor

    def _read(self) -> RecordedCommit | None:
        """The record in the file. One that is not complete is ignored: it was cut off by a full disk or a power cut."""
        data = b""
        with suppress(OSError):
            data = self.file.read_bytes() if self.file is not None else b""
        if len(data) != RECORD.size + CHECKSUM.size or CHECKSUM.pack(crc32(data[: RECORD.size])) != data[RECORD.size :]:
            return None
        return RecordedCommit(*RECORD.unpack(data[: RECORD.size]))

    def _identity(self) -> Identity:
        rows = dict(self._db.rows("get_identity"))
        incarnations = [bytes.fromhex(incarnation) for incarnation in rows["incarnations"].split()]
        return Identity(incarnations, float(rows.get("pruned", 0)))

    def _missing(self, recorded: RecordedCommit) -> MissingCommit | None:
        key, seq = ExecutionKey(recorded.execution), recorded.seq
        hash = self._db.get(bytes, "get_event_hash", key, seq)
        incarnations, pruned = self._identity()
        is_other_database = recorded.database != incarnations[0]
        is_superseded = recorded.incarnation in incarnations[:-1]
        is_current = recorded.incarnation == incarnations[-1]
        is_stored = not seq or hash == recorded.hash or (hash is None and recorded.at <= pruned)
        if is_other_database or is_superseded or (is_current and is_stored):
            return None
        at, execution = rfc3339(recorded.at), id_of(key) if seq else ""
        commit = f"the restore that was accepted at {at}"
        if seq:
            stored = self._db.row("last_seq", key)[0]
            commit = f"event {seq} of execution {execution} from {at} (its log has {stored} events)"
        message = (
            f"{self.address} is older than the last commit to it: it lacks {commit}. A copy was restored, or the end "
            "of its write-ahead log was lost. Put the newer database back; or continue from this one with `noetl "
            f"restore --accept --db {quote(self.address)}`: tasks that ran since then run again"
        )
        return MissingCommit(execution, seq, message)
