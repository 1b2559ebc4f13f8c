"""kill -9 of a client in the middle of commits, and a server that goes away under its clients: what was acknowledged is
there, whole and in order, and nothing is half there."""

from __future__ import annotations

import random
import signal
import threading
import time

import pytest
from tests.servers.patience import PATIENCE_SECONDS
from tests.servers.postgres import PostgresServer, Schema

from conformance.kill import check, killed_after
from conformance.suites import A, B, change, events, grow, own, sound, summary
from noetl.engine.events import StepDone
from noetl.errors import StoreError
from noetl.reference import refer
from noetl.store.postgres import PostgresStore

pytestmark = pytest.mark.damaged_log("the rows are made up: this tests stores, not the engine")

KILLS = 12
RESTARTS = 4


def test_every_acknowledged_commit_survives_and_none_is_torn(database: str, schema: Schema) -> None:
    dice = random.Random(7)
    for _ in range(KILLS):
        acknowledged = killed_after(dice.uniform(0, 0.04), PostgresStore, database)
        finish(schema)
        store = PostgresStore(database)
        check(store, acknowledged)
        store.close()


def finish(schema: Schema) -> None:
    """What a killed client has asked for, its server may still be doing."""
    busy = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE %s AND state = 'active'"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while schema.rows(busy, ("SELECT commit_changes%",))[0][0]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Writer(threading.Thread):
    """Appends one event after the other, through whatever happens to the server, and counts what it was told."""

    def __init__(self, database: str) -> None:
        super().__init__(daemon=True)
        self.store = PostgresStore(database)
        self.over = threading.Event()
        self.acknowledged = self.troubles = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.over.is_set():
                try:
                    assert grow(self.store, A, events(1))
                    self.acknowledged += 1
                except StoreError:  # written or not: read again, go on
                    self.troubles += 1
                    time.sleep(0.01)
        except BaseException as error:
            self.failure = error
        finally:
            self.store.close()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
def test_a_server_that_is_restarted_loses_nothing_that_was_acknowledged(
    database: str,
    postgres: PostgresServer,
    how: signal.Signals,
) -> None:
    writer = Writer(database)
    writer.start()
    for _ in range(RESTARTS):
        goal = writer.acknowledged + 20
        while writer.acknowledged < goal and writer.is_alive():
            time.sleep(0.005)
        assert postgres.process is not None
        postgres.process.send_signal(how)
        postgres.process.wait(PATIENCE_SECONDS)
        postgres.stop()
        postgres.start()
    writer.over.set()
    writer.join(PATIENCE_SECONDS)
    assert writer.failure is None
    store = PostgresStore(database)
    rows = store.read(A)
    store.close()
    assert sound(rows)
    assert writer.troubles
    assert writer.acknowledged <= len(rows) <= writer.acknowledged + writer.troubles


def test_an_idle_store_does_not_notice_a_restart(database: str, postgres: PostgresServer) -> None:
    store = PostgresStore(database)
    store.commit([change(A, 0)])
    postgres.stop()
    postgres.start()
    assert store.commit([change(A, 1)]) == [True]
    assert store.changed_elsewhere()  # nobody knows what was said meanwhile
    postgres.stop()
    postgres.start()
    assert store.seq(A) == 2
    store.close()


def test_a_server_that_is_away_is_said_so_and_found_again(database: str, postgres: PostgresServer) -> None:
    store = PostgresStore(database)
    postgres.stop()
    try:
        for _ in range(2):
            with pytest.raises(StoreError, match="cannot reach"):
                store.commit([change(A, 0)])
        with pytest.raises(StoreError, match="cannot reach"):
            store.changed_elsewhere()
    finally:
        postgres.start()
    assert store.commit([change(A, 0)]) == [True]
    store.close()


def test_content_is_never_removed_from_under_those_who_have_begun_to_need_it(database: str) -> None:
    """One prunes all the time; the other refers to the content of executions that are about to go."""
    store, pruner = PostgresStore(database), PostgresStore(database)
    over = threading.Event()

    def prune() -> None:
        while not over.is_set():
            pruner.prune(4e9, 100, now=4e9)

    thread = threading.Thread(target=prune, daemon=True)
    thread.start()
    kept = []
    for turn in range(150):
        reference, data = refer({"turn": turn})
        ended = summary(own(turn % 9), "failed", ended=1.0)
        store.commit([change(own(turn % 9), store.seq(own(turn % 9)), summary=ended, blobs=[(reference.key, data)])])
        assert grow(store, B, [StepDone("a#1", reference)])
        if store.blob(reference.key) is not None:
            kept.append(reference.key)
    over.set()
    thread.join(PATIENCE_SECONDS)
    pruner.prune(4e9, 100, now=4e9)
    assert kept
    assert all(store.blob(key) is not None for key in kept)
    store.close()
    pruner.close()
