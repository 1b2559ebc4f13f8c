"""kill -9 in the middle of commits: what was acknowledged is there, whole and in order, and nothing is half there."""

from __future__ import annotations

import os
import random
import signal
import struct
import time
from itertools import count
from pathlib import Path

from conformance.suites import PROCESSES, events, sound, summary
from noetl.store.codec import ZERO, rows_of
from noetl.store.ports import Change
from noetl.store.sqlite import SqliteStore

A = "0198c0de-0000-7000-8000-00000000000a"
B = "0198c0de-0000-7000-8000-00000000000b"
KILLS = 30
ROWS = 7
ACK = struct.Struct("<q")


def commit_for_ever(path: Path, acknowledge: int) -> None:
    """Both executions grow together; the blob and the summary tell how far a commit got."""
    store = SqliteStore(path)
    heads = {one: store.read(one, after=max(0, store.seq(one) - 1))[-1:] for one in (A, B)}
    hashes = {one: rows[0].hash if rows else ZERO for one, rows in heads.items()}
    for turn in count(store.seq(A) // ROWS):
        changes = []
        for one in (A, B):
            rows = rows_of(events(ROWS), turn * ROWS + 1, 1.5, hashes[one])
            hashes[one] = rows[-1].hash
            changes.append(Change(one, turn * ROWS, rows, summary(one, f"{turn}"), [(f"{one}:{turn}", b"x" * 3000)]))
        assert store.commit(changes) == [True, True]
        os.write(acknowledge, ACK.pack(turn + 1))


def commit_in_a_child(path: Path, pipe: object) -> None:
    commit_for_ever(path, pipe.fileno())  # type: ignore[attr-defined]


def killed_after(seconds: float, path: Path) -> int:
    """How many commits a child had acknowledged when it was killed."""
    reader, writer = PROCESSES.Pipe(duplex=False)
    child = PROCESSES.Process(target=commit_in_a_child, args=(path, writer))
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


def test_every_acknowledged_commit_survives_and_none_is_torn(tmp_path: Path) -> None:
    path, dice = tmp_path / "noetl.db", random.Random(7)
    for _ in range(KILLS):
        acknowledged = killed_after(dice.uniform(0, 0.04), path)
        store = SqliteStore(path)
        logs = {one: store.read(one) for one in (A, B)}
        turns = len(logs[A]) // ROWS
        assert turns in (acknowledged, acknowledged + 1)
        assert [len(log) for log in logs.values()] == [turns * ROWS] * 2
        assert all(sound(log) for log in logs.values())
        assert {run.status for run in store.summaries()} == {f"{turns - 1}"}
        assert store.blob(f"{A}:{turns - 1}") is not None
        assert store.blob(f"{B}:{turns}") is None
        assert store._db.execute("PRAGMA integrity_check").get == "ok"
        store.close()
