"""Whatever takes an address asks the guard before it connects: every kind, and every provider of the keychain.

Here 127.0.0.1 stands for what is forbidden. A door listens there and counts who knocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from importlib import import_module
from typing import Any

import msgspec
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.servers.tool_call import context

from noetl.addresses import ForbiddenAddress, check_host, forbid_addresses
from noetl.keychain import rest
from noetl.keychain.keychain import Keychain, StoredCredential
from noetl.keychain.providers import PROVIDERS, google, vault
from noetl.keychain.rest import TokenCache
from noetl.model.outcome import Failure, Outcome
from noetl.model.playbook import Credential
from noetl.tools.postgres_client.connections import with_addresses
from noetl.tools.registry import BUILTIN

SECONDS = 120


class Door:
    """Listens on loopback, counts connections and ends each at once."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.knocks = 0
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = self.socket.accept()
                self.knocks += 1
                one.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(SECONDS)


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    monkeypatch.setenv("NO_PROXY", "*")
    for module in (google, vault, rest):
        monkeypatch.setattr(module, "TOKENS", TokenCache())
    one = Door()
    yield one
    one.close()


@pytest.fixture
def loopback_forbidden() -> Iterator[None]:
    forbid_addresses(["127.0.0.0/8", "::1/128"])
    yield
    forbid_addresses([])


Call = Callable[[str, int], Awaitable[Outcome]]


def tool(kind: str, login: Callable[[str, int], Any] | None = None, **inputs: Any) -> Call:
    """A call whose inputs have HOST and PORT for where the door is."""

    async def call(host: str, port: int) -> Outcome:
        module = import_module(BUILTIN[kind])
        fields = {} if login is None else login(host, port)

        async def credential(auth: Any) -> dict[str, Any]:
            return auth if isinstance(auth, dict) else fields

        value = msgspec.json.decode(
            msgspec.json.encode(inputs).replace(b"HOST", host.encode()).replace(b"PORT", str(port).encode())
        )
        try:
            outcome: Outcome = await module.run(msgspec.convert(value, module.Inputs), context(credential=credential))
            return outcome
        except Failure as failure:
            return failure.outcome
        finally:
            if close := getattr(module, "close", None):
                await close()

    return call


def entry(kind: str, login: Callable[[str, int], dict[str, Any]], provider: str | None = None) -> Call:
    """A keychain entry that is looked up at a provider."""

    async def call(host: str, port: int) -> Outcome:
        fields = login(host, port)

        async def fetch(name: str) -> StoredCredential:
            return StoredCredential(name, kind if provider is None else "secret_manager", fields)

        keychain = Keychain({"one": Credential("one", kind)}, fetch, "p", "default", environment={})
        try:
            if provider is None:
                return Outcome(result=await keychain.fields("one"))
            return Outcome(result=await keychain.secret(provider, "a-secret", None, None, "one"))
        except Failure as failure:
            return failure.outcome

    return call


def snowflake(host: str, port: int) -> dict[str, Any]:
    return {"account": "a", "user": "u", "password": "secret", "host": host, "port": port, "protocol": "http"}


def account(host: str, port: int) -> dict[str, Any]:
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    result = {"client_email": "a@b", "private_key": key, "token_uri": f"http://{host}:{port}/token"}
    return {"service_account": {"type": "service_account", "project_id": "p", **result}}


def account_elsewhere(host: str, port: int) -> dict[str, Any]:
    key = account("127.0.0.1", port)["service_account"]
    return {"service_account": {**key, "gcs_base_url": f"https://{host}:{port}"}}


KEYS = {"access_key_id": "AKIA", "secret_access_key": "secret-key", "region": "us-east-1"}
TABLE: dict[str, Call] = {
    "http": tool("http", url="http://HOST:PORT/"),
    "s3": tool(
        "s3", lambda *at: KEYS, operation="get", bucket="latest", key="k", endpoint="http://HOST:PORT", auth="a"
    ),
    "s3 of a credential": tool(
        "s3",
        lambda host, port: {**KEYS, "endpoint": f"http://{host}:{port}"},
        operation="get",
        bucket="latest",
        key="k",
        auth="a",
    ),
    "gcs": tool(
        "gcs",
        lambda *at: {"anonymous": True},
        operation="get",
        bucket="bb",
        key="k",
        endpoint="http://HOST:PORT",
        auth="a",
    ),
    "gcs gcs_base_url": tool("gcs", account_elsewhere, operation="get", bucket="bb", key="k", auth="a"),
    "object s3": tool(
        "object", lambda *at: KEYS, operation="get", url="s3://bucket", key="k", endpoint="http://HOST:PORT", auth="a"
    ),
    "object gs": tool(
        "object",
        lambda *at: {"anonymous": True},
        operation="get",
        url="gs://bucket",
        key="k",
        endpoint="http://HOST:PORT",
        auth="a",
    ),
    "object az": tool(
        "object",
        lambda *at: {"account_name": "acc", "anonymous": True},
        operation="get",
        url="az://bucket",
        key="k",
        endpoint="http://HOST:PORT",
        auth="a",
    ),
    "nats": tool("nats", operation="publish", url="nats://HOST:PORT", subject="s", data=1),
    "postgres": tool("postgres", dsn="postgresql://u@HOST:PORT/d", table="t", rows=[{"a": 1}]),
    "postgres credential": tool(
        "postgres",
        lambda host, port: {"host": host, "port": port, "user": "u", "database": "d"},
        auth="a",
        table="t",
        rows=[{"a": 1}],
    ),
    "snowflake": tool("snowflake", snowflake, auth="a", query="SELECT 1"),
    "transfer http": tool(
        "transfer",
        source={"kind": "http", "url": "http://HOST:PORT/"},
        target={"kind": "http", "url": "http://HOST:PORT/"},
    ),
    "transfer postgres": tool(
        "transfer",
        lambda host, port: {"dsn": f"postgresql://u@{host}:{port}/d"},
        source={"kind": "postgres", "auth": "a", "query": "SELECT 1"},
        target={"kind": "http", "url": "http://HOST:PORT/"},
    ),
    "transfer snowflake": tool(
        "transfer",
        snowflake,
        source={"kind": "snowflake", "auth": "a", "query": "SELECT 1"},
        target={"kind": "http", "url": "http://HOST:PORT/"},
    ),
    "container": tool("container", image="alpine", command=["true"]),
    "vault": entry("secret_manager", lambda h, p: {"url": f"http://{h}:{p}", "token": "a-token"}, "vault"),
    "vault approle": entry(
        "secret_manager", lambda h, p: {"url": f"http://{h}:{p}", "role_id": "r", "secret_id": "secret"}, "vault"
    ),
    "google": entry(
        "secret_manager", lambda h, p: {"endpoint": f"http://{h}:{p}", "token": "a-token", "project": "p"}, "google"
    ),
    "google token_uri": entry("secret_manager", account, "google"),
    "google metadata_host": entry(
        "secret_manager", lambda h, p: {"metadata_host": f"{h}:{p}", "project": "p"}, "google"
    ),
    "aws": entry("secret_manager", lambda h, p: {"endpoint": f"http://{h}:{p}", **KEYS}, "aws"),
    "oauth2": entry(
        "oauth2_client_credentials",
        lambda h, p: {"token_url": f"http://{h}:{p}/", "client_id": "c", "client_secret": "secret"},
    ),
}
"""Everything that connects to an address from a playbook or a credential."""
WITHOUT_ADDRESS = {
    "noop", "duckdb", "python", "shell", "script", "workbook", "playbook", "iterator", "wait", "secrets", "quantum",
}  # fmt: skip
"""Kinds that take none. What programs of python, shell and script do is for sandboxes and the network to limit; duckdb
has no access to the network; secrets goes through the providers."""
NEARBY = {"env", "file"}


def test_the_table_has_every_kind_and_every_provider() -> None:
    rows = {row.partition(" ")[0] for row in TABLE}
    assert rows == (set(BUILTIN) - WITHOUT_ADDRESS) | (set(PROVIDERS) - NEARBY) | {"oauth2"}


def finished(call: Call, host: str, port: int) -> Outcome:
    async def main() -> Outcome:
        async with asyncio.timeout(SECONDS):
            return await call(host, port)

    return asyncio.run(main())


@pytest.mark.usefixtures("loopback_forbidden")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("row", TABLE)
def test_a_forbidden_address_is_refused_before_anybody_knocks(
    row: str, host: str, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"tcp://{host}:{door.port}")
    outcome = finished(TABLE[row], host, door.port)
    assert outcome.error is not None
    assert outcome.error.kind == "connect", outcome.error.message
    assert "nothing is sent there from here" in outcome.error.message
    if row != "container":  # the engine is the worker's own: it may be another one the next time
        assert not outcome.error.retryable
    assert door.knocks == 0


QUICK = [row for row in TABLE if "snowflake" not in row]


@pytest.mark.parametrize("row", QUICK)
def test_without_a_guard_the_same_calls_do_knock(row: str, door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the table would prove nothing."""
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{door.port}")
    finished(TABLE[row], "127.0.0.1", door.port)
    assert door.knocks > 0


@pytest.mark.usefixtures("loopback_forbidden")
def test_the_machines_own_metadata_server_is_no_address_of_a_playbook(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker may sign in as its machine where its own environment names the server."""

    async def main() -> None:
        environment = {"GCE_METADATA_HOST": f"127.0.0.1:{door.port}", "GOOGLE_CLOUD_PROJECT": "p"}

        async def fetch(name: str) -> StoredCredential:
            raise AssertionError(name)

        with contextlib.suppress(Failure):
            await Keychain({}, fetch, "p", "default", environment=environment).secret("google", "a-secret")

    asyncio.run(main())
    assert door.knocks > 0


# -- names that change their mind -------------------------------------------------------------------------------------


def test_postgres_connects_to_the_addresses_that_were_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(host: str, port: Any, *more: Any, **options: Any) -> Any:
        addresses = {"one.example": ["192.0.2.1", "192.0.2.2"], "two.example": ["192.0.2.3"]}[host]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    forbid_addresses()
    monkeypatch.setattr(socket, "getaddrinfo", answer)
    try:
        result = conninfo_to_dict(
            with_addresses("host=one.example,two.example,/tmp port=1,2,3 dbname=d sslmode=verify-full")
        )
        assert result["host"] == "one.example,one.example,two.example,/tmp"
        assert result["hostaddr"] == "192.0.2.1,192.0.2.2,192.0.2.3,"
        assert result["port"] == "1,1,2,3"
        assert result["sslmode"] == "verify-full"
        single = conninfo_to_dict(with_addresses("host=one.example dbname=d"))
        assert (single["hostaddr"], single["port"]) == ("192.0.2.1,192.0.2.2", "5432,5432")
        for forbidden in ("hostaddr=169.254.169.254", "host=x hostaddr=169.254.0.1", "host=2852039166"):
            with pytest.raises(ForbiddenAddress):
                with_addresses(f"{forbidden} dbname=d")
        assert with_addresses("dbname=d") == "dbname=d"
    finally:
        forbid_addresses([])


def test_a_host_that_nobody_knows_is_left_for_the_driver_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*asked: Any, **more: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    forbid_addresses()
    try:
        asyncio.run(check_host("no-such-host.invalid"))
    finally:
        forbid_addresses([])


@pytest.mark.parametrize(
    ("kind", "inputs", "fields"),
    [
        ("s3", {"bucket": "bb", "region": "x@169.254.169.254/?"}, KEYS),
        ("s3", {"bucket": "bb", "endpoint": "http://user@169.254.169.254"}, KEYS),
        ("s3", {"bucket": "bb", "endpoint": "http://169.254.169.254\\@127.0.0.1"}, KEYS),
        ("s3", {"bucket": "bb", "endpoint": "http://%31%36%39.254.169.254"}, KEYS),
        ("s3", {"bucket": "bb", "endpoint": "http://①69.254.169.254"}, KEYS),
        ("object", {"url": "az://bb"}, {"account_name": "x@169.254.169.254/?", "anonymous": True}),
    ],
)
def test_what_drivers_read_differently_is_no_address(kind: str, inputs: dict[str, Any], fields: dict[str, Any]) -> None:
    outcome = finished(tool(kind, lambda *at: fields, operation="get", key="k", auth="a", **inputs), "", 0)
    assert outcome.error is not None
    assert outcome.error.kind == "input"


@pytest.mark.parametrize("name", ["account", "host"])
def test_an_account_of_snowflake_is_no_address(name: str) -> None:
    fields = {**snowflake("127.0.0.1", 1), name: "169.254.169.254:80/latest?"}
    outcome = finished(tool("snowflake", lambda *at: fields, auth="a", query="SELECT 1"), "", 0)
    assert outcome.error is not None
    assert (outcome.error.kind, name in outcome.error.message) == ("input", True)
