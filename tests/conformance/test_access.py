"""Tokens, users and sessions: every store does the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.conformance.memory import MemoryStore

from noetl.store.access import ApiToken, Session, User
from noetl.store.postgres import PostgresStore
from noetl.store.sqlite import SqliteStore
from noetl.store.store import Store

ONE = ApiToken("t1", b"\0" * 32, "worker", "the shop's ä", 1.5, "shop", 9.5)
TWO = ApiToken("t2", b"\xff" * 32, "admin", "", 1.0)
ADA = User("ada", "author", "$argon2id$x", 2.0)
DESK = Session("s1", b"a" * 32, "ada", 10.0, 10.0, 50.0, "agent", "::1")
PHONE = Session("s2", b"b" * 32, "ada", 11.0, 11.0, 20.0)
BOBS = Session("s3", b"c" * 32, "bob", 12.0, 12.0, 50.0)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    one: Store
    if request.param == "memory":
        one = MemoryStore()
    elif request.param == "sqlite":
        one = SqliteStore(tmp_path / "noetl.db")
    else:
        one = PostgresStore(request.getfixturevalue("database"))
    yield one
    one.close()


def test_tokens_are_found_by_their_hash_until_revoked(store: Store) -> None:
    access = store.access
    assert access.tokens() == []
    for token in (ONE, TWO):
        access.add_token(token)
    assert access.tokens() == [TWO, ONE]
    assert access.token(ONE.hash) == ONE
    assert access.token(b"?" * 32) is None
    assert access.token_by_id(ONE.id) == ONE
    assert access.token_by_id("none") is None
    assert access.revoke_token("t1", 5.0)
    assert not access.revoke_token("t1", 6.0)
    assert not access.revoke_token("none", 6.0)
    assert access.token(ONE.hash) == replace(ONE, revoked=5.0)


def test_a_token_is_valid_until_it_runs_out_or_is_revoked() -> None:
    assert ONE.is_valid(9.0)
    assert not ONE.is_valid(9.5)
    assert TWO.is_valid(1e12)
    assert not replace(TWO, revoked=1.0).is_valid(0.0)


def test_users_are_added_once_and_changed_if_there(store: Store) -> None:
    access = store.access
    assert not access.put_user(ADA, new=False)
    assert access.put_user(ADA, new=True)
    assert not access.put_user(replace(ADA, role="admin"), new=True)
    assert access.user("ada") == ADA
    changed = replace(ADA, role="admin", password="other")
    assert access.put_user(changed, new=False)
    assert access.put_user(User("Ada", "viewer", "x", 1.0), new=True)
    assert access.users() == [User("Ada", "viewer", "x", 1.0), changed]
    assert access.user("nobody") is None


def test_a_user_goes_with_the_sessions(store: Store) -> None:
    access = store.access
    access.put_user(ADA, new=True)
    for session in (DESK, PHONE, BOBS):
        access.add_session(session)
    assert access.delete_user("ada")
    assert not access.delete_user("ada")
    assert access.users() == []
    assert access.sessions() == [BOBS]


def test_sessions_are_found_used_and_ended(store: Store) -> None:
    access = store.access
    for session in (DESK, PHONE, BOBS):
        access.add_session(session)
    assert access.session(DESK.hash) == DESK
    assert access.session(b"?" * 32) is None
    assert access.sessions() == [BOBS, PHONE, DESK]
    assert access.sessions("ada") == [PHONE, DESK]
    access.touch_session("s1", 15.0)
    access.touch_session("s1", 14.0)
    assert access.session(DESK.hash) == replace(DESK, last_used=15.0)
    assert access.delete_session("s1")
    assert not access.delete_session("s1")
    assert access.delete_sessions("ada") == 1
    assert access.delete_sessions("ada") == 0
    assert access.sessions() == [BOBS]


def test_a_new_session_clears_away_what_has_run_out(store: Store) -> None:
    store.access.add_session(PHONE)
    store.access.add_session(replace(DESK, created=20.0))
    assert [session.id for session in store.access.sessions()] == ["s1"]
