"""Sessions where there is NATS: in its key-value store as well, and the database has the last word."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import nats
import pytest
from api_server import ApiServer
from nats.js.errors import NoKeysError
from nats.js.kv import KeyValue
from test_api_sessions import API, DAY, PASSWORD, signed_in, signed_in_with
from tests.servers.nats import RestartedNats, restarted_nats
from tests.servers.patience import PATIENCE_SECONDS

from noetl.nats import connection
from noetl.nats.connection import NatsConnection
from noetl.server.api import ServerSettings
from noetl.server.auth import COOKIE
from noetl.server.sessions import BUCKET
from noetl.settings import NatsSettings

SECONDS = PATIENCE_SECONDS
EMAIL = "ada@example.org"


class Shop(ApiServer):
    """A server with NATS beside it."""

    def __init__(self, broker: RestartedNats) -> None:
        self.broker = broker
        self.bus = NatsConnection(NatsSettings((broker.url,)), lambda level, text: None)
        super().__init__(settings=ServerSettings(version="9.9", bus=self.bus))
        self.do(self._connect())
        with self.client("admin") as admin:
            user = {"name": EMAIL, "password": PASSWORD, "role": "operator"}
            assert admin.post(f"{API}/users", json=user).status_code == 201

    async def _connect(self) -> None:
        self.keeping = asyncio.create_task(self.bus.run())

    def until(self, status: str = "ok") -> None:
        give_up = time.monotonic() + SECONDS
        while (self.bus.status() == "ok") != (status == "ok"):
            assert time.monotonic() < give_up
            time.sleep(0.02)

    def keys(self, work: Callable[[KeyValue], Awaitable[Any]]) -> Any:
        """What somebody else sees and does in the bucket."""

        async def main() -> Any:
            connection = await nats.connect(self.broker.url)
            try:
                return await work(await connection.jetstream().key_value(BUCKET))
            finally:
                await connection.close()

        return asyncio.run(main())

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.keeping.cancel)
        super().close()


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setattr(connection, "RESPONSE_SECONDS", 30.0)  # a busy machine is not what is tested
    with restarted_nats(tmp_path) as broker:
        server = Shop(broker)
        server.until()
        yield server
        server.close()


def secret_of(client: httpx2.Client) -> str:
    return str(client.headers["Cookie"]).partition(f"{COOKIE}=")[2]


def key_of(client: httpx2.Client) -> str:
    return f"noetl.sessions.{sha256(secret_of(client).encode()).hexdigest()}"


def entry_of(shop: Shop, client: httpx2.Client) -> dict[str, Any]:
    entry = shop.keys(lambda bucket: bucket.get(key_of(client)))
    value: dict[str, Any] = msgspec.json.decode(entry.value)
    return value


async def all_keys(bucket: KeyValue, count: int) -> list[str]:
    """All keys, of which there are so many. What the driver lists may end before the answers on their way have come."""
    async with asyncio.timeout(SECONDS):
        while True:
            result: list[str] = []
            with suppress(NoKeysError):
                result = await bucket.keys()
            if len(result) == count:
                return result
            await asyncio.sleep(0.05)


def seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def is_in(client: httpx2.Client) -> bool:
    code = client.get(f"{API}/executions").status_code
    assert code in (200, 401)
    return code == 200


def test_a_session_is_a_key_with_the_fields_of_the_specification(shop: Shop) -> None:
    client, _ = signed_in(shop, EMAIL)
    with client:
        result = entry_of(shop, client)
        (session,) = shop.store.access.sessions()
    assert result == {
        "session_id": session.id,
        "user_id": EMAIL,
        "email": EMAIL,
        "display_name": EMAIL,
        "roles": ["operator"],
        "created_at": result["created_at"],
        "expires_at": result["expires_at"],
        "last_activity_at": result["created_at"],
        "client_ip": "127.0.0.1",
        "auth0_id": None,
    }
    assert seconds(result["expires_at"]) - seconds(result["created_at"]) == DAY


def test_a_token_that_is_called_like_a_user_does_not_pass_for_that_user(shop: Shop) -> None:
    client, _ = signed_in_with(shop, shop.add_token("viewer", EMAIL))
    with client, shop.client("admin") as admin:
        value = entry_of(shop, client)
        assert (value["user_id"], value["email"]) == (f"token:{shop.ids[EMAIL]}", None)
        assert (value["display_name"], value["roles"]) == (EMAIL, ["viewer"])
        assert admin.delete(f"{API}/tokens/{shop.ids[EMAIL]}").status_code == 204
        shop.keys(lambda bucket: all_keys(bucket, 0))


def test_the_secret_is_nowhere_in_the_bucket(shop: Shop) -> None:
    client, _ = signed_in(shop, EMAIL)

    async def everything(bucket: KeyValue) -> str:
        result = []
        for key in await all_keys(bucket, 2):
            result.append(key)
            result.append(str((await bucket.get(key)).value))
        return " ".join(result)

    with client:
        assert secret_of(client) not in shop.keys(everything)


def test_the_sessions_of_a_user_can_be_listed(shop: Shop) -> None:
    clients = [signed_in(shop, EMAIL)[0] for _ in range(2)]
    name = "ada=40example=2Eorg"

    async def listed(bucket: KeyValue) -> list[str]:
        return [key for key in await all_keys(bucket, 4) if key.startswith(f"noetl.sessions.user.{name}.")]

    ids = {key.rpartition(".")[2] for key in shop.keys(listed)}
    assert ids == {session.id for session in shop.store.access.sessions(EMAIL)}
    with clients[0] as first, clients[1]:
        hash = shop.keys(lambda bucket: bucket.get(f"noetl.sessions.user.{name}.{min(ids)}")).value.decode()
        assert f"noetl.sessions.{hash}" in {key_of(client) for client in clients}
        assert {item["id"] for item in first.get(f"{API}/sessions").json()["items"]} == ids


def test_use_is_written_there_and_earlier_revisions_stay(shop: Shop) -> None:
    client, _ = signed_in(shop, EMAIL)
    with client:
        before = entry_of(shop, client)
        shop.clock.offset += 3600
        assert is_in(client)
        after = entry_of(shop, client)
        history = shop.keys(lambda bucket: bucket.history(key_of(client)))
    assert seconds(after["last_activity_at"]) - seconds(before["last_activity_at"]) >= 3600
    assert seconds(after["expires_at"]) - seconds(after["last_activity_at"]) == DAY
    assert [msgspec.json.decode(one.value) for one in history] == [before, after]
    status = shop.keys(lambda bucket: bucket.status())
    assert (status.history, status.ttl) == (10, DAY)


def test_use_elsewhere_keeps_a_session_alive_but_not_beyond_seven_days(shop: Shop) -> None:
    client, _ = signed_in(shop, EMAIL)

    async def use(bucket: KeyValue) -> None:
        entry = await bucket.get(key_of(client))
        value = msgspec.json.decode(entry.value or b"")
        value["last_activity_at"] = datetime.fromtimestamp(shop.clock.now(), UTC).isoformat()
        await bucket.update(key_of(client), msgspec.json.encode(value), last=entry.revision)

    with client:
        for _ in range(6):
            shop.clock.offset += 0.95 * DAY
            shop.keys(use)
        shop.clock.offset += 0.95 * DAY
        assert is_in(client)
        shop.clock.offset += 0.5 * DAY
        shop.keys(use)
        assert not is_in(client)


def test_a_time_to_come_in_nats_does_not_count(shop: Shop) -> None:
    client, _ = signed_in(shop, EMAIL)

    async def lie(bucket: KeyValue) -> None:
        value = {"last_activity_at": "9999-01-01T00:00:00Z", "roles": ["admin"], "user_id": "root"}
        await bucket.put(key_of(client), msgspec.json.encode(value))

    with client:
        shop.keys(lie)
        assert is_in(client)
        assert client.get(f"{API}/tokens").status_code == 403
        shop.clock.offset += 1.5 * DAY
        shop.keys(lambda bucket: bucket.put(key_of(client), b"no json"))
        assert not is_in(client)


def test_a_session_ended_in_the_database_is_refused_though_nats_has_it(shop: Shop) -> None:
    client, _ = signed_in(shop, EMAIL)
    with client:
        assert is_in(client)
        (session,) = shop.store.access.sessions()
        shop.store.access.delete_session(session.id)
        assert entry_of(shop, client)["session_id"] == session.id
        shop.clock.offset += 10  # what was found is kept for a moment
        assert not is_in(client)
        with pytest.raises(nats.js.errors.KeyNotFoundError):  # nobody else is led to believe it
            entry_of(shop, client)


def test_a_session_ended_in_nats_is_over(shop: Shop) -> None:
    client, _ = signed_in(shop, EMAIL)
    with client:
        assert is_in(client)
        shop.keys(lambda bucket: bucket.delete(key_of(client)))
        shop.clock.offset += 10
        assert not is_in(client)
        assert shop.store.access.sessions() == []


def test_signing_out_a_new_password_and_deletion_end_it_in_both(shop: Shop) -> None:
    def out(client: httpx2.Client, csrf: str) -> None:
        assert client.delete(f"{API}/sessions", headers={"X-CSRF-Token": csrf}).status_code == 204

    def word(client: httpx2.Client, csrf: str) -> None:
        with shop.client("admin") as admin:
            assert admin.put(f"{API}/users/{EMAIL}", json={"password": PASSWORD}).status_code == 200

    def gone(client: httpx2.Client, csrf: str) -> None:
        with shop.client("admin") as admin:
            assert admin.delete(f"{API}/users/{EMAIL}").status_code == 204

    for end in (out, word, gone):
        client, csrf = signed_in(shop, EMAIL)
        with client:
            end(client, csrf)
            with pytest.raises(nats.js.errors.KeyNotFoundError):
                entry_of(shop, client)
            assert shop.store.access.sessions() == []
            assert not is_in(client)


def test_another_role_is_reported(shop: Shop) -> None:
    client, _ = signed_in(shop, EMAIL)
    with client, shop.client("admin") as admin:
        assert admin.put(f"{API}/users/{EMAIL}", json={"role": "viewer"}).status_code == 200
        assert entry_of(shop, client)["roles"] == ["viewer"]


def test_without_nats_people_sign_in_and_stay(shop: Shop) -> None:
    before, _ = signed_in(shop, EMAIL)
    shop.broker.stop()
    shop.until("away")
    with before:
        shop.clock.offset += 3600
        assert is_in(before)
        during, csrf = signed_in(shop, EMAIL)
        with during:
            assert is_in(during)
            shop.broker.start()
            shop.until()
            shop.clock.offset += 10
            assert is_in(before)
            assert is_in(during)
            assert entry_of(shop, during)["user_id"] == EMAIL  # what NATS has missed
            assert during.delete(f"{API}/sessions", headers={"X-CSRF-Token": csrf}).status_code == 204
            assert not is_in(during)


def test_a_nats_that_hangs_keeps_nobody_out(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "RESPONSE_SECONDS", 0.5)
    assert shop.broker.process is not None
    os.kill(shop.broker.process.pid, signal.SIGSTOP)
    try:
        client, csrf = signed_in(shop, EMAIL)
        with client:
            assert is_in(client)
            assert client.delete(f"{API}/sessions", headers={"X-CSRF-Token": csrf}).status_code == 204
            assert not is_in(client)
    finally:
        os.kill(shop.broker.process.pid, signal.SIGCONT)


def test_a_bucket_that_was_lost_is_filled_again(shop: Shop) -> None:
    client, _ = signed_in(shop, EMAIL)
    with client:
        shop.broker.stop()
        shop.until("away")
        for file in sorted((shop.broker.folder / "data").rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        shop.broker.start()
        shop.until()
        shop.clock.offset += 10
        assert is_in(client)
        assert entry_of(shop, client)["user_id"] == EMAIL
