"""kind: s3 against an S3 server on loopback."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers.listening import listening
from tests.servers.s3 import KEYS, REGION, S3Server, s3_server
from tests.servers.tool_call import Caller, context

from noetl.tools import s3
from noetl.tools.object_store import stores


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture
def bucket(server: S3Server) -> str:
    return server.bucket()


@pytest.fixture
def caller(server: S3Server, bucket: str) -> Caller:
    return Caller(s3, bucket=bucket, endpoint=server.endpoint, region=REGION, auth=KEYS)


@pytest.fixture(autouse=True)
def no_ambient_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine's environment says must not decide; a token of it would break the given keys."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "not-for-this-credential")
    monkeypatch.setenv("NO_PROXY", "*")


# -- put and get ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "data", "media", "stored"),
    [
        ("note.txt", "grüße", "text/plain", "grüße".encode()),
        ("note", "grüße", "text/plain; charset=utf-8", "grüße".encode()),
        ("orders.json", {"order": "007", "sum": 12.5}, "application/json", b'{"order":"007","sum":12.5}'),
        ("list", [1, None], "application/json", b"[1,null]"),
        ("raw.bin", b"\x00\xff", "application/octet-stream", b"\x00\xff"),
        ("raw", b"\x00\xff", "application/octet-stream", b"\x00\xff"),
        ("empty.txt", "", "text/plain", b""),
        ("table.parquet", b"PAR1", "application/vnd.apache.parquet", b"PAR1"),
        ("page.csv.gz", b"\x1f\x8b", "application/gzip", b"\x1f\x8b"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() and "/" not in value else "",
)
def test_what_is_put_is_stored_with_its_type_and_comes_back(
    server: S3Server, caller: Caller, bucket: str, key: str, data: Any, media: str, stored: bytes
) -> None:
    put = caller.result(operation="put", key=key, data=data)
    assert (put["key"], put["size"], put["content_type"]) == (key, len(stored), media)
    there = server.client.get_object(Bucket=bucket, Key=key)
    assert (there["Body"].read(), there["ContentType"], there["ETag"]) == (stored, media, put["etag"])
    got = caller.result(operation="get", key=key)
    assert (got["data"], got["size"], got["content_type"], got["etag"]) == (data, len(stored), media, put["etag"])


def test_the_type_and_the_attributes_are_the_authors(server: S3Server, caller: Caller, bucket: str) -> None:
    caller.result(operation="put", key="x.txt", data={"a": 1}, content_type="application/json", metadata={"by": "ada"})
    there = server.client.head_object(Bucket=bucket, Key="x.txt")
    assert (there["ContentType"], there["Metadata"]) == ("application/json", {"by": "ada"})
    got = caller.result(operation="get", key="x.txt")
    assert (got["data"], got["metadata"]) == ({"a": 1}, {"by": "ada"})
    assert got["updated"].endswith("Z")


@pytest.mark.parametrize(
    ("media", "content", "data"),
    [
        ("binary/octet-stream", b'{"a": 1}', {"a": 1}),
        ("application/json", b"{broken", "{broken"),
        ("application/json", b"\xff", b"\xff"),
        ("text/plain", b"\xff", b"\xff"),
        ("text/plain; charset=latin-1", b"\xfc", "ü"),
        ("image/png", b"png", b"png"),
    ],
    ids=["by the key", "json that is none", "no text at all", "no utf-8", "latin-1", "neither"],
)
def test_content_is_read_by_its_type(
    server: S3Server, caller: Caller, bucket: str, media: str, content: bytes, data: Any
) -> None:
    server.client.put_object(Bucket=bucket, Key="x.json", Body=content, ContentType=media)
    assert caller.result(operation="get", key="x.json")["data"] == data


def test_keys_may_hold_what_addresses_may_not(server: S3Server, caller: Caller, bucket: str) -> None:
    key = "a b/ü%20?x#y&z=1+2.txt"
    caller.result(operation="put", key=key, data="here")
    assert [content["Key"] for content in server.client.list_objects_v2(Bucket=bucket)["Contents"]] == [key]
    assert caller.result(operation="get", key=key)["data"] == "here"


@pytest.mark.parametrize("key", ["/a", "a/", "a//b", "../a", "a/./b"])
def test_a_key_that_the_driver_would_change_is_refused(caller: Caller, key: str) -> None:
    kind, message, _ = caller.error(operation="put", key=key, data="x")
    assert (kind, f"{key!r} cannot be used as a key" in message) == ("input", True)


# -- files ------------------------------------------------------------------------------------------------------------


def test_files_go_both_ways(server: S3Server, caller: Caller, bucket: str, tmp_path: Path) -> None:
    content = os.urandom(12 * 2**20)
    (tmp_path / "up.bin").write_bytes(content)
    put = caller.result(operation="put", key="big.bin", file=str(tmp_path / "up.bin"))
    assert put["size"] == len(content)
    assert server.client.head_object(Bucket=bucket, Key="big.bin")["ContentLength"] == len(content)
    got = caller.result(operation="get", key="big.bin", file=str(tmp_path / "down.bin"))
    assert (got["file"], got["size"], "data" in got) == (str(tmp_path / "down.bin"), len(content), False)
    assert (tmp_path / "down.bin").read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["down.bin", "up.bin"]


def test_a_file_is_replaced_only_by_a_whole_one(caller: Caller, tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("before")
    kind, _, _ = caller.error(operation="get", key="missing", file=str(tmp_path / "kept.txt"))
    assert kind == "not_found"
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("kept.txt", "before")]


def test_an_object_above_the_limit_needs_a_file(
    caller: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller.result(operation="put", key="x.txt", data="12345")
    monkeypatch.setattr(stores, "MAX_BYTES", 4)
    kind, message, retryable = caller.error(operation="get", key="x.txt")
    assert (kind, "give `file`" in message, retryable) == ("too_large", True, False)
    caller.result(operation="get", key="x.txt", file=str(tmp_path / "x"))
    assert (tmp_path / "x").read_text() == "12345"


@pytest.mark.parametrize(
    ("inputs", "kind", "says"),
    [
        ({"operation": "put", "file": "no/such"}, "not_found", "this worker has no file 'no/such'"),
        ({"operation": "put", "file": "/"}, "input", "'/' is not a file"),
        ({"operation": "get", "file": "no/such/x"}, "not_found", "this worker has no folder 'no/such'"),
        ({"operation": "get", "file": "/"}, "input", "'/' cannot be the name of a file"),
        ({"operation": "get", "file": "/proc/x"}, "input", "/proc, /sys and /dev are closed to playbooks"),
    ],
)
def test_files_that_cannot_be(caller: Caller, inputs: dict[str, Any], kind: str, says: str) -> None:
    caller.result(operation="put", key="x", data="x")
    result, message, _ = caller.error(key="x", **inputs)
    assert (result, says in message) == (kind, True), message


# -- list -------------------------------------------------------------------------------------------------------------


def test_a_list_has_the_objects_whose_key_begins_so(server: S3Server, caller: Caller, bucket: str) -> None:
    keys = ["a", "a/1", "a/10", "a/2/x", "ab", "b/1", "b1"]
    for key in keys:
        server.client.put_object(Bucket=bucket, Key=key, Body=b"12")

    async def listed() -> None:
        for prefix in ["", "a", "a/", "a/1", "a/2", "a/2/", "ab", "b", "b/1", "c"]:
            outcome = await caller.ask(operation="list", prefix=prefix)
            assert [one["key"] for one in outcome.result["objects"]] == [key for key in keys if key.startswith(prefix)]
            assert outcome.result["count"] == len(outcome.result["objects"])
            assert outcome.result["truncated"] is False

    caller.whole(listed())
    first = caller.result(operation="list")["objects"][0]
    assert (first["size"], first["updated"][-1], first["etag"]) == (2, "Z", '"c20ad4d76fe97759aa27a0c99bff6710"')


@pytest.mark.parametrize(
    ("limit", "count", "truncated"), [(2, 2, True), (3, 3, False), (9, 3, False), (None, 3, False)]
)
def test_a_list_ends_at_its_limit(
    server: S3Server, caller: Caller, bucket: str, limit: int | None, count: int, truncated: bool
) -> None:
    for key in "abc":
        server.client.put_object(Bucket=bucket, Key=key, Body=b"")
    result = caller.result(operation="list", limit=limit)
    assert (len(result["objects"]), result["count"], result["truncated"]) == (count, count, truncated)


def test_more_objects_than_a_page_are_listed(
    server: S3Server, caller: Caller, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")
    for number in range(25):
        server.client.put_object(Bucket=bucket, Key=f"{number:02}", Body=b"")
    assert [one["key"] for one in caller.result(operation="list")["objects"]] == [
        f"{number:02}" for number in range(25)
    ]
    assert caller.result(operation="list", limit=15)["truncated"] is True


# -- delete and copy --------------------------------------------------------------------------------------------------


def test_deleting_twice_is_well(caller: Caller) -> None:
    caller.result(operation="put", key="x", data="x")
    assert caller.result(operation="delete", key="x") == {"key": "x", "deleted": True}
    assert caller.result(operation="delete", key="x") == {"key": "x", "deleted": False}


def test_a_copy_keeps_type_and_attributes(server: S3Server, caller: Caller, bucket: str) -> None:
    other = server.bucket()
    caller.result(operation="put", key="a/x.json", data={"a": 1}, metadata={"by": "ada"})
    near = caller.result(operation="copy", key="a/x.json", destination="b/y")
    far = caller.result(operation="copy", key="a/x.json", destination=f"s3://{other}/c/z")
    assert [near["destination"], far["destination"]] == [f"s3://{bucket}/b/y", f"s3://{other}/c/z"]
    for name, key in ((bucket, "b/y"), (other, "c/z")):
        there = server.client.get_object(Bucket=name, Key=key)
        assert there["Body"].read() == b'{"a":1}'
        assert (there["ContentType"], there["Metadata"]) == ("application/json", {"by": "ada"})


def test_a_large_object_streams_to_another_bucket(server: S3Server, caller: Caller, bucket: str) -> None:
    other, content = server.bucket(), os.urandom(20 * 2**20)
    server.client.put_object(Bucket=bucket, Key="big", Body=content)
    caller.result(operation="copy", key="big", destination=f"s3://{other}/big")
    assert server.client.get_object(Bucket=other, Key="big")["Body"].read() == content


# -- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"operation": "get"}, "operation get needs `key`"),
        ({"operation": "get", "key": "a", "data": "x"}, "operation get takes no `data`"),
        ({"operation": "get", "key": "a", "prefix": "x"}, "operation get takes no `prefix`"),
        ({"operation": "list", "key": "a"}, "operation list takes no `key`"),
        ({"operation": "delete", "key": "a", "limit": 3}, "operation delete takes no `limit`"),
        ({"operation": "put", "key": "a"}, "needs either `data` or `file`"),
        ({"operation": "put", "key": "a", "data": None, "file": "x"}, "needs either `data` or `file`"),
        ({"operation": "put", "key": "a", "data": "x", "content_type": "a\nb"}, "control character"),
        ({"operation": "put", "key": "a", "data": "x", "metadata": {"a": "b\r\nc"}}, "control character"),
        ({"operation": "copy", "key": "a"}, "needs `destination`"),
        ({"operation": "copy", "key": "a", "destination": "gs://b/k"}, "`kind: object` copies to other stores"),
        ({"operation": "copy", "key": "a", "destination": "s3://bucket"}, "s3://BUCKET/KEY"),
        ({"operation": "list", "bucket": "we ird"}, "cannot be the name of a bucket"),
        ({"operation": "list", "endpoint": "nonsense"}, "must start with http:// or https://"),
        ({"operation": "list", "endpoint": "ftp://x"}, "must start with http:// or https://"),
    ],
)
def test_inputs_that_make_no_sense(caller: Caller, inputs: dict[str, Any], says: str) -> None:
    kind, message, retryable = caller.error(**inputs)
    assert (kind, says in message, retryable) == ("input", True, False), message


def test_what_is_missing(caller: Caller, bucket: str) -> None:
    outcome = caller.outcome(operation="get", key="missing")
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.message) == (
        "not_found",
        f"s3://{bucket}/missing does not exist (NoSuchKey)",
    )
    assert outcome.extra == {"s3": {"status": 404, "code": "NoSuchKey"}}
    assert caller.outcome(operation="copy", key="missing", destination="x").extra["s3"]["code"] == "NoSuchKey"
    lost = caller.error(operation="list", bucket="no-such-bucket")
    assert lost == ("not_found", "s3://no-such-bucket does not exist (NoSuchBucket)", False)


def test_a_server_that_is_missing(caller: Caller) -> None:
    kind, message, retryable = caller.error(operation="get", key="x", endpoint="http://127.0.0.1:1")
    assert (kind, retryable) == ("connect", True)
    assert "127.0.0.1:1" in message
    assert "Debug" not in message


def test_a_busy_server_is_retryable_and_asked_once(caller: Caller) -> None:
    requests = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        async with listening(answer) as port:
            endpoint = f"http://127.0.0.1:{port}"
            outcome = await caller.ask(operation="get", key="x", endpoint=endpoint)
        assert outcome.error is not None
        assert (outcome.error.kind, outcome.error.retryable, outcome.extra["s3"]["status"]) == ("connect", True, 503)

    caller.whole(main())
    assert len(requests) == 1


def test_a_call_to_a_silent_server_can_be_cancelled(caller: Caller) -> None:
    async def main() -> None:
        ended, heard = asyncio.Event(), asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.set()
            while await reader.read(1000):
                pass
            writer.close()
            ended.set()

        async with listening(silent) as port:
            endpoint = f"http://127.0.0.1:{port}"
            call = asyncio.create_task(caller.ask(operation="get", key="x", endpoint=endpoint))
            await heard.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await ended.wait()  # the connection was given up

    caller.whole(main())


@pytest.mark.parametrize(
    "auth",
    [{}, {"access_key_id": "a"}, {"secret_access_key": "s3cret-example"}, {"kind": "basic", "username": "u"}],
    ids=["empty", "half", "other half", "another kind"],
)
def test_a_credential_that_is_none(caller: Caller, auth: dict[str, str]) -> None:
    kind, message, _ = caller.error(operation="list", auth=auth)
    assert (kind, "access_key_id" in message, "s3cret" in message) == ("auth", True, False)


def test_an_unknown_entry_of_the_keychain(caller: Caller) -> None:
    assert caller.error(operation="list", auth="nobody")[0] == "auth"


def test_without_a_signature_only_what_is_public_can_be_read(server: S3Server, caller: Caller, bucket: str) -> None:
    caller.result(operation="put", key="x", data="hello")
    outcome = caller.outcome(operation="get", key="x", auth={"anonymous": True})
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable, outcome.extra["s3"]["status"]) == ("auth", False, 403)
    assert "check `auth`" in outcome.error.message
    server.client.put_object_acl(Bucket=bucket, Key="x", ACL="public-read")
    assert caller.result(operation="get", key="x", auth={"anonymous": True})["data"] == "hello"


def test_without_a_credential_the_worker_signs(
    server: S3Server, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_SESSION_TOKEN")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret_access_key"])
    caller.result(operation="put", key="x", data="mine", auth=None)
    assert caller.result(operation="get", key="x", auth=None)["data"] == "mine"


def test_a_worker_without_an_identity(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_SESSION_TOKEN")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")  # where a machine would be asked for its role
    kind, message, _ = caller.error(operation="list", auth=None)
    assert (kind, "give `auth`, or credentials in the environment" in message) == ("auth", True), message


def test_secrets_are_hidden_before_a_message_is_cut(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def redact(text: Any) -> Any:
        return text.replace("127.0.0.1:1", "***")

    outcome = caller.outcome(context(redact=redact), operation="get", key="x", endpoint="http://127.0.0.1:1")
    assert outcome.error is not None
    assert "http://***/" in outcome.error.message


def test_stores_are_kept_for_further_calls(caller: Caller) -> None:
    async def main() -> None:
        for _ in range(3):
            await caller.ask(operation="list")
        assert len(stores._STORES[asyncio.get_running_loop()]) == 1
        for number in range(stores.POOL_SIZE + 5):
            await caller.ask(operation="get", key="/", region=f"r-{number}")
        await caller.ask(operation="list")
        assert len(stores._STORES[asyncio.get_running_loop()]) == stores.POOL_SIZE
        await s3.close()
        assert asyncio.get_running_loop() not in stores._STORES

    caller.whole(main())
