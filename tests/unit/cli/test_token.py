"""noetl token and noetl user: secrets are printed once, passwords never."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from command import Done, noetl

from noetl.access import hash_of, password_matches
from noetl.store.sqlite import SqliteStore

PASSWORD = "correct horse battery"


def run_noetl(home: Path, *args: str, stdin: str = "", code: int = 0) -> Done:
    done = noetl(*args, "--db", str(home / "noetl.db"), stdin=stdin, cwd=home)
    assert done.code == code, done.err
    return done


def test_a_token_is_printed_once_and_kept_as_a_hash(tmp_path: Path) -> None:
    made = msgspec.json.decode(
        run_noetl(tmp_path, "token", "create", "--role", "worker", "--pool", "eu", "--expires", "30d", "-o", "json").out
    )
    assert made.keys() >= {"id", "token", "role", "expires"}
    store = SqliteStore(tmp_path / "noetl.db")
    result = store.access.token(hash_of(made["token"]))
    store.close()
    assert result is not None
    assert (result.id, result.role, result.pool) == (made["id"], "worker", "eu")
    assert result.expires is not None
    assert round(result.expires - result.created) == 30 * 86_400
    assert made["token"].encode() not in (tmp_path / "noetl.db").read_bytes()
    plain = run_noetl(tmp_path, "token", "create", "--role", "viewer").out.strip()
    assert plain.startswith("noetl_")
    listed = run_noetl(tmp_path, "token", "list", "-o", "json").out
    assert (len(msgspec.json.decode(listed)), plain in listed) == (2, False)


def test_a_token_is_revoked_once(tmp_path: Path) -> None:
    made = msgspec.json.decode(run_noetl(tmp_path, "token", "create", "--role", "admin", "-o", "json").out)
    run_noetl(tmp_path, "token", "revoke", made["id"])
    run_noetl(tmp_path, "token", "revoke", made["id"], code=4)


@pytest.mark.parametrize(
    "args",
    [("--role", "root"), ("--role", "viewer", "--pool", "eu"), ("--role", "viewer", "--expires", "soon"), ()],
)
def test_a_token_that_cannot_be(tmp_path: Path, args: tuple[str, ...]) -> None:
    run_noetl(tmp_path, "token", "create", *args, code=2)
    assert not (tmp_path / "noetl.db").exists()


def test_users_are_added_listed_and_deleted(tmp_path: Path) -> None:
    run_noetl(tmp_path, "user", "add", "ada", "--role", "author", stdin=f"{PASSWORD}\n")
    run_noetl(tmp_path, "user", "add", "ada", stdin=f"{PASSWORD}\n", code=6)
    (listed,) = msgspec.json.decode(run_noetl(tmp_path, "user", "list", "-o", "json").out)
    assert (listed["name"], listed["role"]) == ("ada", "author")
    store = SqliteStore(tmp_path / "noetl.db")
    user = store.access.user("ada")
    store.close()
    assert user is not None
    assert password_matches(user.password, PASSWORD)
    assert not password_matches(user.password, "another password")
    run_noetl(tmp_path, "user", "delete", "ada")
    run_noetl(tmp_path, "user", "delete", "ada", code=4)


@pytest.mark.parametrize(("name", "password"), [("ada", "short"), ("ada", ""), ("a/b", PASSWORD), ("", PASSWORD)])
def test_a_user_who_cannot_be(tmp_path: Path, name: str, password: str) -> None:
    run_noetl(tmp_path, "user", "add", name, stdin=f"{password}\n", code=2)
