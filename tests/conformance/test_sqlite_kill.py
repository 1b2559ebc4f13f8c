"""kill -9 in the middle of commits: what was acknowledged is there, whole and in order, and nothing is half there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from conformance.kill import check, killed_after
from noetl.store.sqlite import SqliteStore

pytestmark = pytest.mark.damaged_log("the rows are made up: this tests stores, not the engine")

KILLS = 30


def test_every_acknowledged_commit_survives_and_none_is_torn(tmp_path: Path) -> None:
    path, dice = tmp_path / "noetl.db", random.Random(7)
    for _ in range(KILLS):
        acknowledged = killed_after(dice.uniform(0, 0.04), SqliteStore, path)
        store = SqliteStore(path)
        check(store, acknowledged)
        assert store._db.connection.execute("PRAGMA integrity_check").get == "ok"
        store.close()
