"""kind: gcs against an emulator on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import re
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.servers.gcs import GcsServer, gcs_server
from tests.servers.listening import listening
from tests.servers.tool_call import Caller

from noetl.model.outcome import Outcome
from noetl.tools import gcs
from noetl.tools.object_store import content as object_content
from noetl.tools.object_store import stores

ANONYMOUS = {"anonymous": True}
METADATA_HOSTS = ("GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP")
"""Where the driver asks for the identity of the machine."""


@pytest.fixture(scope="module")
def server() -> Iterator[GcsServer]:
    with gcs_server() as running:
        yield running


@pytest.fixture
def bucket(server: GcsServer) -> str:
    return server.bucket()


@pytest.fixture
def caller(server: GcsServer, bucket: str) -> Caller:
    return Caller(gcs, bucket=bucket, endpoint=server.endpoint, auth=ANONYMOUS)


@pytest.fixture(autouse=True)
def no_ambient_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("GOOGLE_", "STORAGE_", "GCE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "*")
    for name in METADATA_HOSTS:
        monkeypatch.setenv(name, "127.0.0.1:9")


def stored(server: GcsServer, bucket: str, key: str) -> Any:
    blob = server.client.bucket(bucket).get_blob(key)
    assert blob is not None
    return blob


def fill(server: GcsServer, bucket: str, *keys: str) -> None:
    for key in keys:
        server.client.bucket(bucket).blob(key).upload_from_string(b"12")


# -- put and get ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "data", "media", "content"),
    [
        ("note.txt", "grüße", "text/plain", "grüße".encode()),
        ("note", "grüße", "text/plain; charset=utf-8", "grüße".encode()),
        ("orders.json", {"order": "007"}, "application/json", b'{"order":"007"}'),
        ("raw", b"\x00\xff", "application/octet-stream", b"\x00\xff"),
    ],
    ids=["text", "plain", "json", "bytes"],
)
def test_what_is_put_is_stored_with_its_type_and_comes_back(
    server: GcsServer, caller: Caller, bucket: str, key: str, data: Any, media: str, content: bytes
) -> None:
    put = caller.result(operation="put", key=key, data=data)
    blob = stored(server, bucket, key)
    etag = blob.etag
    assert put == {"key": key, "size": len(content), "content_type": media, "etag": etag}
    assert (blob.content_type, blob.download_as_bytes()) == (media, content)
    got = caller.result(operation="get", key=key)
    assert (got["data"], got["size"], got["content_type"], got["etag"]) == (data, len(content), media, etag)


def test_the_type_and_the_attributes_are_the_authors(server: GcsServer, caller: Caller, bucket: str) -> None:
    caller.result(operation="put", key="x.txt", data=[1], content_type="application/json", metadata={"by": "ada"})
    blob = stored(server, bucket, "x.txt")
    assert (blob.content_type, blob.metadata) == ("application/json", {"by": "ada"})
    got = caller.result(operation="get", key="x.txt")
    assert (got["data"], got["metadata"], got["updated"][-1]) == ([1], {"by": "ada"}, "Z")


def test_files_go_both_ways(server: GcsServer, caller: Caller, bucket: str, tmp_path: Path) -> None:
    content = os.urandom(20 * 2**20)
    (tmp_path / "up.bin").write_bytes(content)
    assert caller.result(operation="put", key="big.bin", file=str(tmp_path / "up.bin"))["size"] == len(content)
    assert stored(server, bucket, "big.bin").size == len(content)
    got = caller.result(operation="get", key="big.bin", file=str(tmp_path / "down.bin"))
    assert (got["file"], got["size"], "data" in got) == (str(tmp_path / "down.bin"), len(content), False)
    assert (tmp_path / "down.bin").read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["down.bin", "up.bin"]


def test_an_object_above_the_limit_needs_a_file(
    caller: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller.result(operation="put", key="x.txt", data="12345")
    monkeypatch.setattr(stores, "MAX_BYTES", 4)
    kind, message, retryable = caller.error(operation="get", key="x.txt")
    assert (kind, "give `file`" in message, retryable) == ("too_large", True, False)
    caller.result(operation="get", key="x.txt", file=str(tmp_path / "x"))
    assert (tmp_path / "x").read_text() == "12345"


# -- list, delete, copy -----------------------------------------------------------------------------------------------


def test_a_list_has_the_objects_whose_key_begins_so(server: GcsServer, caller: Caller, bucket: str) -> None:
    keys = ["a", "a/1", "a/10", "ab", "b/1"]
    fill(server, bucket, *keys)
    for prefix in ["", "a", "a/1", "b", "c"]:
        result = caller.result(operation="list", prefix=prefix)
        assert [one["key"] for one in result["objects"]] == [key for key in keys if key.startswith(prefix)]
        assert (result["count"], result["truncated"]) == (len(result["objects"]), False)
    first = caller.result(operation="list")["objects"][0]
    assert (first["size"], first["updated"][-1], bool(first["etag"])) == (2, "Z", True)


@pytest.mark.parametrize(("limit", "count", "truncated"), [(2, 2, True), (3, 3, False), (None, 3, False)])
def test_a_list_ends_at_its_limit(
    server: GcsServer, caller: Caller, bucket: str, limit: int | None, count: int, truncated: bool
) -> None:
    fill(server, bucket, "a", "b", "c")
    result = caller.result(operation="list", limit=limit)
    assert (len(result["objects"]), result["count"], result["truncated"]) == (count, count, truncated)


def test_deleting_twice_is_well(caller: Caller) -> None:
    caller.result(operation="put", key="x", data="x")
    assert caller.result(operation="delete", key="x") == {"key": "x", "deleted": True}
    assert caller.result(operation="delete", key="x") == {"key": "x", "deleted": False}


def test_copies_within_and_between_buckets(server: GcsServer, caller: Caller, bucket: str) -> None:
    other = server.bucket()
    caller.result(operation="put", key="a/x.json", data={"a": 1})
    near = caller.result(operation="copy", key="a/x.json", destination="b/y")
    far = caller.result(operation="copy", key="a/x.json", destination=f"gs://{other}/c/z")
    assert [near["destination"], far["destination"]] == [f"gs://{bucket}/b/y", f"gs://{other}/c/z"]
    for name, key in ((bucket, "b/y"), (other, "c/z")):
        blob = stored(server, name, key)
        assert (blob.content_type, blob.download_as_bytes()) == ("application/json", b'{"a":1}')


# -- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"operation": "get"}, "needs `key`"),
        ({"operation": "get", "key": "a", "data": "x"}, "takes no `data`"),
        ({"operation": "put", "key": "a"}, "needs either `data` or `file`"),
        ({"operation": "copy", "key": "a", "destination": "s3://b/k"}, "`kind: object` copies to other stores"),
        ({"operation": "copy", "key": "a", "destination": "gs://bucket"}, "gs://BUCKET/KEY"),
        ({"operation": "list", "bucket": "we/ird"}, "cannot be the name of a bucket"),
        ({"operation": "list", "endpoint": "nonsense"}, "must start with http:// or https://"),
    ],
)
def test_inputs_that_make_no_sense(caller: Caller, inputs: dict[str, Any], says: str) -> None:
    kind, message, retryable = caller.error(**inputs)
    assert (kind, says in message, retryable) == ("input", True, False), message


def test_what_is_missing(caller: Caller, bucket: str) -> None:
    outcome = caller.outcome(operation="get", key="missing")
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.message) == ("not_found", f"gs://{bucket}/missing does not exist")
    assert outcome.extra["gcs"]["status"] == 404
    assert caller.error(operation="copy", key="missing", destination="x")[0] == "not_found"
    assert caller.error(operation="list", bucket="no-such-bucket")[0] == "not_found"


def test_a_server_that_is_missing(caller: Caller, tmp_path: Path) -> None:
    for more in ({"operation": "list"}, {"operation": "put", "key": "x", "data": "x"}):
        kind, message, retryable = caller.error(endpoint="http://127.0.0.1:1", **more)
        assert (kind, retryable, "127.0.0.1" in message) == ("connect", True, True)
    kind, _, retryable = caller.error(endpoint="http://127.0.0.1:1", operation="get", key="x", file=str(tmp_path / "x"))
    assert (kind, retryable) == ("connect", True)
    assert list(tmp_path.iterdir()) == []


async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, status: bytes) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (b"503 Busy", "connect", True),
        (b"429 Slow", "connect", True),
        (b"403 No", "auth", False),
        (b"401 Who", "auth", False),
        (b"400 What", "input", False),
    ],
    ids=["503", "429", "403", "401", "400"],
)
def test_only_what_may_pass_is_retryable(caller: Caller, status: bytes, kind: str, retryable: bool) -> None:
    requests = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(status)
        await refuse(reader, writer, status)

    async def main() -> None:
        async with listening(answer) as port:
            endpoint = f"http://127.0.0.1:{port}"
            outcome = await caller.ask(operation="get", key="x", endpoint=endpoint)
        assert outcome.error is not None
        assert (outcome.error.kind, outcome.error.retryable) == (kind, retryable)

    caller.whole(main())
    assert len(requests) == 1


def test_a_call_to_a_silent_server_can_be_cancelled(caller: Caller) -> None:
    async def main() -> None:
        heard, done = asyncio.Event(), asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.set()
            await done.wait()
            writer.close()

        async with listening(silent) as port:
            endpoint = f"http://127.0.0.1:{port}"
            call = asyncio.create_task(caller.ask(operation="get", key="x", endpoint=endpoint))
            await heard.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            done.set()

    caller.whole(main())


# -- credentials ------------------------------------------------------------------------------------------------------


def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(*pem).decode()


@pytest.mark.parametrize(
    ("auth", "says"),
    [
        ({}, "must have `service_account`"),
        ({"kind": "gcs_credential", "client_email": "a@b"}, "must have `service_account`"),
        ({"service_account": "s3cret"}, "not the text of a key file"),
        ({"client_email": "a@b", "private_key": "s3cret"}, "check `private_key`"),
    ],
    ids=["empty", "half", "no json", "no key"],
)
def test_a_credential_that_is_none(caller: Caller, auth: dict[str, Any], says: str) -> None:
    kind, message, _ = caller.error(operation="list", auth=auth)
    assert (kind, says in message, "s3cret" in message) == ("auth", True, False), message


async def requests_to(caller: Caller, inputs: dict[str, Any]) -> tuple[list[bytes], Outcome]:
    """The requests that a call sends to a server that has nothing, and its outcome."""
    heads = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with listening(answer) as port:
        for name in METADATA_HOSTS:
            os.environ[name] = f"127.0.0.1:{port}"
        return heads, await caller.ask(endpoint=f"http://127.0.0.1:{port}", **inputs)


def test_a_token_is_sent(caller: Caller) -> None:
    async def main() -> None:
        heads, _ = await requests_to(caller, {"operation": "list", "auth": {"token": "t0ken-value"}})
        assert b"authorization: bearer t0ken-value" in heads[0].lower()

    caller.whole(main())


@pytest.mark.parametrize("as_text", [True, False])
def test_a_service_account_signs(caller: Caller, as_text: bool) -> None:
    account = {"client_email": "a@b", "private_key": private_key()}
    fields = {"service_account": object_content.encode(account)[0].decode()} if as_text else {"kind": "gcs", **account}

    async def main() -> None:
        heads, _ = await requests_to(caller, {"operation": "list", "auth": fields})
        token = re.search(rb"(?i)authorization: bearer [^.]+\.([^.]+)\.", heads[0])
        assert token is not None, heads[0]
        assert json.loads(urlsafe_b64decode(token[1] + b"=="))["iss"] == "a@b"

    caller.whole(main())


@pytest.mark.parametrize("operation", ["list", "put", "delete"])
def test_an_anonymous_call_does_not_ask_for_the_identity_of_the_machine(caller: Caller, operation: str) -> None:
    more = {"put": {"key": "x", "data": "x"}, "delete": {"key": "x"}, "list": {}}[operation]

    async def main() -> None:
        heads, _ = await requests_to(caller, {"operation": operation, "auth": ANONYMOUS, **more})
        assert [head for head in heads if b"computeMetadata" in head] == []

    caller.whole(main())


def test_a_worker_without_an_identity(caller: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    async def main() -> None:
        heads, outcome = await requests_to(caller, {"operation": "list", "auth": None})
        assert b"computeMetadata" in heads[0]
        assert outcome.error is not None
        assert (outcome.error.kind, "give `auth`" in outcome.error.message) == ("auth", True)

    caller.whole(main())


def test_clients_are_kept_for_further_calls(caller: Caller) -> None:
    async def main() -> None:
        for _ in range(3):
            await caller.ask(operation="list")
        assert len(stores._STORES[asyncio.get_running_loop()]) == 1
        await gcs.close()
        assert asyncio.get_running_loop() not in stores._STORES

    caller.whole(main())
