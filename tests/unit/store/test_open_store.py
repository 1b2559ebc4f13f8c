"""A store is opened by its address."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from noetl.errors import StoreError, UsageError
from noetl.store.open import is_file, open_store
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
    with pytest.raises(UsageError, match="is not supported"):
        open_store(address)


@pytest.mark.parametrize(
    "address",
    ["dbname=x host=y password=s3cret", "host = y", " password='s3cret' user=me", "HOST=a dbname=b", "service=prod"],
)
def test_keywords_of_postgres_are_no_file_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.chdir(tmp_path)
    for use in (open_store, is_file):
        with pytest.raises(UsageError, match="postgresql://USER@HOST") as caught:
            use(address)
        assert "s3cret" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_may_be_called_like_a_keyword(tmp_path: Path) -> None:
    for address in (f"{tmp_path}/host=x.db", f"sqlite:{tmp_path}/a host=x.db"):
        open_store(address).close()


def test_without_the_driver_the_command_that_brings_it_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("noetl.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"pip install 'noetl-engine\[postgres\]'"):
        open_store("postgresql://127.0.0.1/x")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:s3cret@host:port/x?nonsense=1",
        "postgresql://me:pass@s3cret:1@127.0.0.1/x",  # libpq takes s3cret for the host, and prints it
        "postgresql://me:s3cret/word@127.0.0.1/x",  # and here for the port
        "postgresql://me:s3cret?word@127.0.0.1/x",
        "postgresql://me:s3cret#word@127.0.0.1:1/x",
    ],
)
def test_an_address_that_cannot_be_read_is_not_repeated(address: str) -> None:
    with pytest.raises(UsageError, match=r"is invalid.*special characters of the password as %XX") as caught:
        open_store(address)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__suppress_context__
