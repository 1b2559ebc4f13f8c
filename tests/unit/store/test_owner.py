"""An execution has one owner; a dead owner's lock is free at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.servers.patience import PATIENCE_SECONDS

from noetl.errors import StoreError
from noetl.store.sqlite.locks import Owner

RUN = "0198c0de-0000-7000-8000-00000000000a"
CHILD = """
import os, sys, time
from pathlib import Path
from types import SimpleNamespace
from noetl.store.sqlite.locks import Owner
store = SimpleNamespace(locks=Path(sys.argv[1]))
"""
HOLD = CHILD + "owner = Owner.acquire(store, sys.argv[2]); print(owner is not None, flush=True); time.sleep(60)"
FORK = CHILD + (
    "owner = Owner.acquire(store, sys.argv[2]); child = os.fork()\n"
    "if not child: print(os.getpid(), flush=True)\n"
    "time.sleep(60)"
)
CONTEND = (
    CHILD
    + """
won = 0
inside = Path(sys.argv[1]) / "inside"
for _ in range(300):
    owner = Owner.acquire(store, sys.argv[2])
    Owner.is_owned(store, sys.argv[2])
    if owner is not None:
        os.close(os.open(inside, os.O_CREAT | os.O_EXCL))  # fails if another is inside
        won += 1
        inside.unlink()
        owner.release()
print(won)
"""
)


class Place(NamedTuple):
    locks: Path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "locks")


def child(code: str, place: Place) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, place.locks, RUN], stdout=subprocess.PIPE, text=True)


def test_only_one_owns_an_execution(place: Place) -> None:
    assert not Owner.is_owned(place, RUN)
    owner = Owner.acquire(place, RUN)
    assert owner is not None
    assert owner.held
    assert Owner.is_owned(place, RUN)
    assert Owner.acquire(place, RUN) is None
    assert Owner.acquire(place, RUN[:-1] + "b") is not None
    owner.release()
    assert not owner.held
    assert not Owner.is_owned(place, RUN)


def test_release_removes_the_file_and_may_be_repeated(place: Place) -> None:
    with Owner.acquire(place, RUN) or pytest.fail("not acquired") as owner:
        assert owner.path.stat().st_mode & 0o777 == 0o600
        assert place.locks.stat().st_mode & 0o777 == 0o700
    assert not owner.path.exists()
    with Owner.acquire(place, RUN) or pytest.fail("not acquired") as second:
        owner.release()
        assert second.path.exists()


def test_a_killed_owner_leaves_the_lock_free(place: Place) -> None:
    process = child(HOLD, place)
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "True\n"
        assert Owner.is_owned(place, RUN)
        assert Owner.acquire(place, RUN) is None
        process.kill()
        process.wait()
        assert not Owner.is_owned(place, RUN)
        owner = Owner.acquire(place, RUN)
        assert owner is not None
        owner.release()


def test_children_do_not_keep_the_lock_of_a_killed_owner(place: Place) -> None:
    process = child(FORK, place)
    assert process.stdout is not None
    with process:
        grandchild = int(process.stdout.readline())
        try:
            assert Owner.is_owned(place, RUN)
            process.kill()
            process.wait()
            assert not Owner.is_owned(place, RUN)
        finally:
            os.kill(grandchild, 9)


def test_a_look_does_not_keep_the_owner_out(place: Place) -> None:
    """Many ask and many own, all at once: never two inside, and everybody gets in."""
    processes = [child(CONTEND, place) for _ in range(3)]
    won = [int(process.communicate(timeout=PATIENCE_SECONDS)[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert all(won)
    assert list(place.locks.iterdir()) == []


def test_trouble_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot lock"):
        Owner.acquire(Place(tmp_path / "file"), RUN)
    for name in ("", "../x", "a/b", ".."):
        with pytest.raises(StoreError, match="not an execution id"):
            Owner.acquire(Place(tmp_path), name)
