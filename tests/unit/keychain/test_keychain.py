"""The keychain of a lease: entries become fields, secrets become known to the redactor, and nothing else gets out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.errors import AuthError, NotFound
from noetl.keychain.keychain import Handle, Keychain, StoredCredential, handle_of, keychain_faults, open_handle
from noetl.model.outcome import Failure
from noetl.model.playbook import Credential, Executor, Playbook, Step
from noetl.reference import Reference
from noetl.store.credentials import SealedCredential

TOKEN = "t0ken-of-the-shop"
STORED = {
    "shop": StoredCredential("shop", "bearer", {"token": TOKEN}),
    "db": StoredCredential("db", "postgres_credential", {"dsn": "postgresql://u:s3cret-pw@h/d"}),
    "narrow": StoredCredential("narrow", "bearer", {"token": TOKEN}, ("shop/*", "till"), ("eu-?",)),
    "many": StoredCredential("many", "secret_manager", {"a": "aaaaaa1", "b": "bbbbbb2"}),
}


async def fetch(name: str) -> StoredCredential:
    await asyncio.sleep(0)
    if name == "broken":
        raise AuthError("credential 'broken' can't be opened")
    if name not in STORED:
        raise NotFound(f"credential {name!r} not found")
    return STORED[name]


def keychain(*entries: Credential, path: str = "shop/orders", pool: str = "eu-1", **environment: str) -> Keychain:
    return Keychain({entry.name: entry for entry in entries}, fetch, path, pool, environment=environment)


def fields(entry: Credential, **more: Any) -> dict[str, Any]:
    return asyncio.run(keychain(entry, **more).fields(entry.name))


def failure(act: Callable[[], Any]) -> tuple[str, str]:
    """Kind and message of the failure that it raises."""
    with pytest.raises(Failure) as caught:
        act()
    error = caught.value.outcome.error
    assert error is not None
    assert TOKEN not in error.message
    return error.kind, error.message


def test_an_entry_has_the_fields_of_its_credential() -> None:
    assert fields(Credential("api", "bearer", credential="shop")) == {"kind": "bearer", "token": TOKEN}
    assert fields(Credential("shop", "bearer"))["token"] == TOKEN
    assert fields(Credential("api", "bearer", provider="credential", key="shop"))["token"] == TOKEN
    assert fields(Credential("any", "secret_manager", credential="shop"))["token"] == TOKEN
    mapped = Credential("two", "secret_manager", credential="many", map={"left": "a"})
    assert fields(mapped) == {"kind": "secret_manager", "left": "aaaaaa1"}


@pytest.mark.parametrize(
    ("entry", "kind", "message"),
    [
        (Credential("api", "bearer", credential="none"), "auth", "keychain entry 'api': credential 'none' not found"),
        (Credential("broken", "bearer"), "auth", "can't be opened"),
        (Credential("api", "basic", credential="shop"), "auth", "is a basic, but credential 'shop' is a bearer"),
        (Credential("api", "bearer", provider="env", key="API"), "not_found", "no environment variable API"),
        (Credential("api", "bearer", provider="keyring", key="API"), "auth", "unknown provider 'keyring'"),
        (Credential("api", "bearer", provider="env", key="NOETL_MASTER_KEY"), "auth", "belongs to noetl itself"),
        (
            Credential("api", "basic", provider="env", key="PLAIN"),
            "auth",
            "must be a JSON map with the fields of a basic",
        ),
        (Credential("api", "bearer", provider="env", key="SHORT"), "auth", "token is shorter than 6 characters"),
        (Credential("api", "bearer", provider="env", key="EMPTY"), "auth", "'EMPTY' is empty at env"),
        (Credential("api", "bearer", provider="file", key="/no/such/file"), "not_found", "has no file"),
        (Credential("m", "secret_manager", credential="many", map={"x": "c"}), "not_found", "has no field 'c'"),
    ],
    ids=lambda value: value.name if isinstance(value, Credential) else None,
)
def test_what_cannot_be_resolved(entry: Credential, kind: str, message: str) -> None:
    result = failure(lambda: fields(entry, PLAIN="plain-text", SHORT="abc", EMPTY="", NOETL_MASTER_KEY="00" * 32))
    assert result[0] == kind
    assert message in result[1]


def test_a_name_that_is_not_declared() -> None:
    assert failure(lambda: asyncio.run(keychain().fields("shop")))[0] == "auth"


@pytest.mark.parametrize(
    ("path", "pool", "message"),
    [
        ("shop/orders", "eu-1", None),
        ("till", "eu-2", None),
        ("shop", "eu-1", "may not be used by playbook 'shop', only by shop/*, till"),
        ("shop/orders", "us-1", "may not be used in pool 'us-1', only in eu-?"),
    ],
)
def test_who_may_use_a_credential(path: str, pool: str, message: str | None) -> None:
    def both() -> list[Any]:
        one = keychain(Credential("narrow", "bearer"), path=path, pool=pool)
        return [asyncio.run(one.fields("narrow")), asyncio.run(one.secret("credential", "narrow"))]

    if message is None:
        assert [found["token"] for found in both()] == [TOKEN, TOKEN]
    else:
        assert message in failure(both)[1]


def test_secrets_are_known_the_moment_they_are_resolved() -> None:
    one = keychain(Credential("db", "postgres_credential"))
    text = "could not connect: s3cret-pw"
    assert one.redactor.redact(text) == text
    asyncio.run(one.fields("db"))
    assert one.redactor.redact(text) == "could not connect: ***"


def test_fields_of_a_map_are_learnt_too() -> None:
    one = keychain()
    assert asyncio.run(one.credential({"token": TOKEN, "host": "example"})) == {"token": TOKEN, "host": "example"}
    assert one.redactor.redact(f"{TOKEN} example") == "*** example"
    assert failure(lambda: asyncio.run(one.credential({"token": "abc"})))[0] == "auth"
    assert asyncio.run(keychain(Credential("shop", "bearer")).credential("shop"))["token"] == TOKEN


@pytest.mark.parametrize("dsn", ["postgresql://u:s3cret-pw@h/d", "host=h user=u password=s3cret-pw dbname=d"])
def test_a_connection_string_is_a_credential_and_its_password_is_learnt(dsn: str) -> None:
    chain = keychain()
    assert asyncio.run(chain.credential(dsn)) == {"dsn": dsn}
    assert "s3cret-pw" not in str(chain.redactor.redact(f"cannot sign in with s3cret-pw at {dsn}"))


def test_a_text_that_is_no_name_is_not_quoted() -> None:
    _, message = failure(lambda: asyncio.run(keychain().credential("ada:s3cret-pw@h/d")))
    assert message == "the keychain has no entry of that name (17 characters): declare it in the playbook's `keychain`"


def test_a_secret_cannot_be_renamed_to_something_harmless() -> None:
    one = keychain(Credential("m", "secret_manager", credential="many", map={"user": "a", "host": "b"}))
    assert asyncio.run(one.fields("m"))["user"] == "aaaaaa1"
    assert one.redactor.redact("aaaaaa1 bbbbbb2") == "*** ***"


def test_only_the_fields_that_are_requested_have_to_be_secrets() -> None:
    one = keychain(ROW='{"username": "app", "password": "s3cret-word", "engine": "postgres", "pin": "12"}')
    process = asyncio.run(one.secret("env", "ROW", None, {"user": "username", "word": "password"}))
    assert process == {"user": "app", "word": "s3cret-word"}
    assert one.redactor.redact("postgres s3cret-word") == "postgres ***"
    assert "pin is shorter" in failure(lambda: asyncio.run(one.secret("env", "ROW")))[1]


def test_what_is_resolved_is_kept_and_cannot_be_changed_from_outside() -> None:
    calls = []

    async def counted(name: str) -> StoredCredential:
        calls.append(name)
        return await fetch(name)

    async def story() -> None:
        one = Keychain({"shop": Credential("shop", "bearer")}, counted, "p", "d", environment={})
        result = await asyncio.gather(*(one.fields("shop") for _ in range(10)))
        result[0]["token"] = "changed"
        assert (await one.fields("shop"))["token"] == TOKEN
        assert calls == ["shop"]

    asyncio.run(story())


def test_a_failure_is_not_kept() -> None:
    answers: list[Callable[[str], Awaitable[StoredCredential]]] = [fetch]

    async def flaky(name: str) -> StoredCredential:
        if answers:
            answers.pop()
            raise Failure("connect", "the server is away", retryable=True)
        return await fetch(name)

    async def story() -> None:
        one = Keychain({"shop": Credential("shop", "bearer")}, flaky, "p", "d", environment={})
        with pytest.raises(Failure, match="away"):
            await one.fields("shop")
        assert (await one.fields("shop"))["token"] == TOKEN

    asyncio.run(story())


def test_who_gives_up_does_not_take_the_others_along() -> None:
    started, go = asyncio.Event(), asyncio.Event()
    ended: list[str] = []

    async def slow(name: str) -> StoredCredential:
        started.set()
        try:
            await go.wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return await fetch(name)

    async def story() -> None:
        one = Keychain({"shop": Credential("shop", "bearer")}, slow, "p", "d", environment={})
        first, second = (asyncio.create_task(one.fields("shop")) for _ in range(2))
        await started.wait()
        first.cancel()
        await asyncio.sleep(0)
        go.set()
        assert (await second)["token"] == TOKEN
        go.clear()
        alone = asyncio.create_task(one.secret("credential", "shop"))
        started.clear()
        await started.wait()
        alone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await alone
        await asyncio.sleep(0)
        assert ended == ["cancelled"]

    asyncio.run(story())


# -- the providers of the machine -------------------------------------------------------------------------------------


def test_variables_of_the_environment() -> None:
    entry = Credential("api", "bearer", provider="env", key="API")
    assert fields(entry, API=f" {TOKEN}\n")["token"] == TOKEN
    assert fields(entry, API='{"token": "from-json-1"}')["token"] == "from-json-1"
    each = Credential("b", "basic", provider="env", map={"username": "WHO", "password": "WORD"})
    assert fields(each, WHO="me", WORD="pass-word") == {"kind": "basic", "username": "me", "password": "pass-word"}
    chosen = Credential("c", "bearer", provider="env", key="API", map={"token": "t"})
    assert fields(chosen, API='{"t": "from-json-2", "u": "x"}')["token"] == "from-json-2"


def test_files_of_the_worker(tmp_path: Path) -> None:
    file = tmp_path / "token"
    entry = Credential("api", "bearer", provider="file", key=str(file))
    file.write_text(f"\ufeff{TOKEN}\n", "utf-8")
    assert fields(entry)["token"] == TOKEN
    file.write_bytes(b"\xff\xfe\x00")
    assert failure(lambda: fields(entry)) == ("auth", f"keychain entry 'api': {file} is not UTF-8 text")
    file.write_bytes(b"x" * (2**20 + 1))
    assert "larger than" in failure(lambda: fields(entry))[1]
    entry = Credential("api", "bearer", provider="file", key=str(tmp_path))
    assert "is not a file" in failure(lambda: fields(entry))[1]
    os.mkfifo(tmp_path / "pipe")
    entry = Credential("api", "bearer", provider="file", key=str(tmp_path / "pipe"))
    assert "is not a file" in failure(lambda: fields(entry))[1]


def test_the_master_key_is_no_secret_for_playbooks(tmp_path: Path) -> None:
    key, link = tmp_path / "master.key", tmp_path / "link"
    key.write_text("00" * 32)
    link.symlink_to(key)
    entry = Credential("api", "bearer", provider="file", key=str(link))
    assert "belongs to noetl itself" in failure(lambda: fields(entry, NOETL_MASTER_KEY_FILE=str(key)))[1]


# -- handles ----------------------------------------------------------------------------------------------------------


def test_a_secret_has_the_fields_that_are_requested() -> None:
    one = keychain(API=TOKEN, MANY='{"a": "aaaaaa1", "b": "bbbbbb2"}')
    assert asyncio.run(one.secret("env", "API")) == {"value": TOKEN}
    assert asyncio.run(one.secret("env", "MANY", None, {"x": "b"})) == {"x": "bbbbbb2"}
    assert asyncio.run(one.secret("credential", "many")) == {"a": "aaaaaa1", "b": "bbbbbb2"}
    assert one.redactor.redact(f"{TOKEN} bbbbbb2") == "*** ***"


def test_a_handle_says_where_and_not_what() -> None:
    async def story() -> None:
        one = keychain(MANY='{"a": "aaaaaa1", "b": "bbbbbb2"}')
        handles = await one.handles("env", "MANY", None, {"left": "a", "right": "b"})
        assert handles == {
            "left": Reference("secret", "env/MANY@#a", 0, "", "secret"),
            "right": Reference("secret", "env/MANY@#b", 0, "", "secret"),
        }
        other = keychain(MANY='{"a": "aaaaaa1", "b": "bbbbbb2"}')
        assert await open_handle(other, handles["right"]) == "bbbbbb2"
        assert other.redactor.redact("bbbbbb2") == "***"

    asyncio.run(story())


@pytest.mark.parametrize(
    "handle",
    [
        Handle("vault", "shop/api", "value"),
        Handle("aws", "a@b#c!d/é%", "f#g@h!", "v1@#!", "entry"),
        Handle("google", "projects/p/secrets/s", "value", "3", "x"),
    ],
    ids=["plain", "odd", "whole"],
)
def test_a_handle_survives_the_log(handle: Handle) -> None:
    assert handle_of(handle.reference()) == handle


def test_a_reference_to_something_else_is_no_handle() -> None:
    with pytest.raises(ValueError, match="not a handle"):
        handle_of(Reference("db", "0" * 64, 1, ""))


# -- asked before anything runs ---------------------------------------------------------------------------------------


def playbook(*entries: Credential, pool: str = "eu-1", other_pool: str | None = None) -> Playbook:
    spec = {} if other_pool is None else {"pool": other_pool}
    return Playbook("p", "shop/orders", (Step("a", spec=spec),), "a", keychain=entries, executor=Executor(pool=pool))


def rows(*stored: StoredCredential) -> dict[str, SealedCredential]:
    return {one.name: SealedCredential(one.name, one.kind, b"", 0.0, 0.0, one.paths, one.pools) for one in stored}


@pytest.mark.parametrize(
    ("entry", "faults"),
    [
        (Credential("shop", "bearer"), []),
        (Credential("x", "secret_manager", credential="shop"), []),
        (Credential("x", "bearer", provider="env", key="X"), []),
        (Credential("x", "bearer", provider="credential", key="shop"), []),
        (Credential("x", "bearer", provider="vault", key="k", credential="many"), []),
        (Credential("x", "acme.login", provider="env", key="X"), []),
        (Credential("narrow", "bearer"), []),
        (
            Credential("gone", "bearer"),
            ["create it with `noetl credential set gone --kind bearer`"],
        ),
        (Credential("x", "bearer", provider="vault", key="k", credential="gone"), ["credential 'gone' not found"]),
        (Credential("x", "baerer", credential="shop"), ["unknown credential kind 'baerer'", "it is a baerer, but"]),
        (Credential("x", "bearer", provider="keyring"), ["unknown provider 'keyring'"]),
        (Credential("x", "basic", credential="shop"), ["it is a basic, but credential 'shop' is a bearer"]),
        (Credential("other", "bearer"), ["may not be used by playbook 'shop/orders', only by till/*"]),
        (Credential("far", "bearer"), ["may only be used in pool us-1"]),
    ],
    ids=lambda value: f"{value.name}-{value.kind}-{value.provider}" if isinstance(value, Credential) else None,
)
def test_entries_that_will_not_be_met(entry: Credential, faults: list[str]) -> None:
    more = [StoredCredential("other", "bearer", {}, ("till/*",)), StoredCredential("far", "bearer", {}, (), ("us-1",))]
    result = keychain_faults(playbook(entry), rows(*STORED.values(), *more))
    assert len(result) == len(faults)
    for line, fault in zip(map(str, result), faults, strict=True):
        assert line.startswith(f"keychain entry {entry.name!r}: ")
        assert fault in line
    gone = ["gone"] if "gone" in (entry.name, entry.credential) else []
    assert [fault.missing for fault in result if fault.missing is not None] == gone


def test_a_pool_of_one_step_is_enough() -> None:
    far = rows(StoredCredential("far", "bearer", {}, (), ("us-1",)))
    assert keychain_faults(playbook(Credential("far", "bearer"), other_pool="us-1"), far) == []
