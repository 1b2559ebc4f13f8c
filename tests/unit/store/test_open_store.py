"""A store is opened by its address."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from noetl.errors import StoreError, UsageError
from noetl.store.open import open_store
from noetl.store.sqlite import SqliteStore

pytestmark = pytest.mark.damaged_log("the rows are made up: this tests stores, not the engine")


@pytest.mark.parametrize("scheme", ["", "sqlite:"])
def test_a_path_is_a_sqlite_file(tmp_path: Path, scheme: str) -> None:
    store = open_store(f"{scheme}{tmp_path / 'x.db'}", synchronous="normal")
    assert isinstance(store, SqliteStore)
    assert store.path == tmp_path / "x.db"
    store.close()


@pytest.mark.parametrize("address", ["mysql://host/db", "http://host", "sqlite://x"])
def test_other_schemes_are_refused(address: str) -> None:
    with pytest.raises(UsageError, match="there is no store for"):
        open_store(address)


def test_without_the_driver_the_command_that_brings_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("noetl.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"pip install 'noetl-engine\[postgres\]'"):
        open_store("postgresql://127.0.0.1/x")


def test_an_address_that_can_not_be_read_is_not_repeated() -> None:
    with pytest.raises(UsageError, match="can't be read") as caught:
        open_store("postgresql://me:s3cret@host:port/x?nonsense=1")
    assert "s3cret" not in str(caught.value)
    assert caught.value.__suppress_context__
