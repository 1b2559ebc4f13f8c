"""A process that commits until it is killed, and what must be found afterwards."""

from __future__ import annotations

import os
import signal
import struct
import time
from itertools import count
from typing import Any

from conformance.suites import PROCESSES, A, B, Opener, events, sound, summary
from noetl.store.codec import ZERO, rows_of
from noetl.store.store import Change, Store

ROWS = 7
ACK = struct.Struct("<q")


def commit_for_ever(opener: Opener, place: Any, acknowledge: Any) -> None:
    """Both executions grow together; the blob and the summary tell how far a commit got."""
    store = opener(place)
    heads = {execution: store.read(execution, after=max(0, store.seq(execution) - 1))[-1:] for execution in (A, B)}
    hashes = {one: rows[0].hash if rows else ZERO for one, rows in heads.items()}
    for turn in count(store.seq(A) // ROWS):
        changes = []
        for execution in (A, B):
            rows = rows_of(events(ROWS), turn * ROWS + 1, 1.5, hashes[execution])
            hashes[execution] = rows[-1].hash
            changes.append(
                Change(
                    execution, turn * ROWS, rows, summary(execution, f"{turn}"), [(f"{execution}:{turn}", b"x" * 3000)]
                )
            )
        assert store.commit(changes) == [True, True]
        os.write(acknowledge.fileno(), ACK.pack(turn + 1))


def killed_after(seconds: float, opener: Opener, place: Any) -> int:
    """How many commits a child had acknowledged when it was killed."""
    reader, writer = PROCESSES.Pipe(duplex=False)
    child = PROCESSES.Process(target=commit_for_ever, args=(opener, place, writer))
    child.start()
    writer.close()
    read = os.read(reader.fileno(), 65_536)  # wait for the first commit, so that it is hit at work
    assert read, "the child ended by itself"
    time.sleep(seconds)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    while more := os.read(reader.fileno(), 65_536):
        read += more
    child.join()
    assert child.exitcode == -signal.SIGKILL
    reader.close()
    whole = len(read) - len(read) % ACK.size
    return int(ACK.unpack(read[whole - ACK.size : whole])[0])


def check(store: Store, acknowledged: int) -> None:
    """What was acknowledged is there, at most one commit more, and nothing of it is half there."""
    logs = {execution: store.read(execution) for execution in (A, B)}
    turns = len(logs[A]) // ROWS
    assert turns in (acknowledged, acknowledged + 1)
    assert [len(log) for log in logs.values()] == [turns * ROWS] * 2
    assert all(sound(log) for log in logs.values())
    assert {run.status for run in store.summaries()} == {f"{turns - 1}"}
    assert store.blob(f"{A}:{turns - 1}") is not None
    assert store.blob(f"{B}:{turns}") is None
