"""Sealed credentials in each store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.memory import MemoryStore

from noetl.store.credentials import SealedCredential
from noetl.store.sqlite import SqliteStore
from noetl.store.store import Store

pytestmark = pytest.mark.damaged_log("the rows are made up: this tests stores, not the engine")

ONE = SealedCredential("b/one", "bearer", b"\x00\xffsealed", 1.5, 2.5, ("shop/*", "é"), ("eu",))
TWO = SealedCredential("a", "acme.login", b"", 3.0, 3.0)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    result: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "noetl.db")
    yield result
    result.close()


def test_what_is_put_is_found(store: Store) -> None:
    store.credentials.put(ONE)
    store.credentials.put(TWO)
    assert store.credentials.get("b/one") == ONE
    assert store.credentials.get("none") is None
    assert store.credentials.all() == [TWO, ONE]


def test_another_of_the_same_name_takes_its_place(store: Store) -> None:
    store.credentials.put(ONE)
    store.credentials.put(SealedCredential("b/one", "basic", b"new", 9.0, 9.0))
    assert store.credentials.all() == [SealedCredential("b/one", "basic", b"new", 1.5, 9.0)]


def test_resealing_needs_what_was_read(store: Store) -> None:
    store.credentials.put(ONE)
    assert not store.credentials.reseal("b/one", b"other", b"new")
    assert not store.credentials.reseal("none", ONE.sealed, b"new")
    assert store.credentials.get("b/one") == ONE
    assert store.credentials.reseal("b/one", ONE.sealed, b"new")
    result = store.credentials.get("b/one")
    assert result is not None
    assert (result.sealed, result.updated) == (b"new", 2.5)


def test_what_is_deleted_is_gone(store: Store) -> None:
    store.credentials.put(ONE)
    assert store.credentials.delete("b/one")
    assert not store.credentials.delete("b/one")
    assert store.credentials.all() == []


def test_credentials_outlive_the_process(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path / "noetl.db")
    first.credentials.put(ONE)
    first.close()
    second = SqliteStore(tmp_path / "noetl.db", mode="read")
    assert second.credentials.all() == [ONE]
    second.close()
