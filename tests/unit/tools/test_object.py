"""kind: object on folders, in memory, and against an S3 server on loopback.

What all stores share is tested with `kind: s3`; here is what differs by store, and copies between them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers.s3 import KEYS, REGION, S3Server, s3_server
from tests.servers.tool_call import Caller

from noetl.tools import object as object_tool


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture(autouse=True)
def no_ambient_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def caller() -> Caller:
    return Caller(object_tool)


@pytest.fixture
def s3_auth(server: S3Server) -> dict[str, str]:
    return {**KEYS, "region": REGION, "endpoint": server.endpoint}


# -- files ------------------------------------------------------------------------------------------------------------


def test_a_folder_is_a_store(caller: Caller, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/new/folder"
    put = caller.result(operation="put", url=url, key="a/b.json", data={"a": 1})
    assert (put["size"], put["content_type"]) == (7, "application/json")
    assert (tmp_path / "new/folder/a/b.json").read_bytes() == b'{"a":1}'
    assert caller.result(operation="get", url=url, key="a/b.json")["data"] == {"a": 1}
    listed = caller.result(operation="list", url=url, prefix="a/b")
    assert [(one["key"], one["size"]) for one in listed["objects"]] == [("a/b.json", 7)]
    assert caller.result(operation="delete", url=url, key="a/b.json")["deleted"] is True
    assert caller.result(operation="delete", url=url, key="a/b.json")["deleted"] is False
    assert caller.result(operation="list", url=url)["objects"] == []


def test_a_list_of_files_has_those_whose_key_begins_so(caller: Caller, tmp_path: Path) -> None:
    keys = ["a", "a1/1", "a1/10", "ab", "b/c/d"]
    for key in keys:
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_text("x")
    for prefix in ["", "a", "a1/", "a1/1", "b/c", "z"]:
        result = caller.result(operation="list", url=f"file://{tmp_path}", prefix=prefix)
        assert sorted(one["key"] for one in result["objects"]) == [key for key in keys if key.startswith(prefix)]


@pytest.mark.parametrize("key", ["../secret", "a/../../secret", "..", "/etc/passwd"])
@pytest.mark.parametrize("operation", ["get", "put", "delete", "copy"])
def test_no_key_leads_out_of_the_folder(caller: Caller, tmp_path: Path, key: str, operation: str) -> None:
    (tmp_path / "secret").write_text("before")
    (tmp_path / "in").mkdir()
    more: dict[str, Any] = {"put": {"data": "after"}, "copy": {"destination": "x"}}.get(operation, {})
    kind, _, _ = caller.error(operation=operation, url=f"file://{tmp_path}/in", key=key, **more)
    assert kind == "input"
    assert (tmp_path / "secret").read_text() == "before"
    assert list((tmp_path / "in").iterdir()) == []


def test_a_copied_file_is_a_file_of_its_own(caller: Caller, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("before")
    caller.result(operation="copy", url=f"file://{tmp_path}", key="a", destination="b/c")
    caller.result(operation="copy", url=f"file://{tmp_path}", key="a", destination=f"file://{tmp_path}/new/d")
    with (tmp_path / "a").open("a") as file:
        file.write(" and after")
    assert [(tmp_path / name).read_text() for name in ("b/c", "new/d")] == ["before", "before"]


def test_files_have_no_attributes(caller: Caller, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"operation": "put", "url": f"file://{tmp_path}", "key": "a", "data": "x"}
    for more in ({"content_type": "text/plain"}, {"metadata": {"a": "b"}}):
        kind, message, _ = caller.error(**asked, **more)
        assert (kind, "files have no" in message) == ("input", True)


def test_a_folder_that_is_missing(caller: Caller, tmp_path: Path) -> None:
    kind, message, _ = caller.error(operation="list", url=f"file://{tmp_path}/no")
    assert (kind, f"no folder '{tmp_path}/no'" in message) == ("not_found", True)
    assert caller.error(operation="get", url=f"file://{tmp_path}", key="no")[0] == "not_found"


def test_a_folder_may_have_a_space(caller: Caller, tmp_path: Path) -> None:
    caller.result(operation="put", url=f"file://{tmp_path}/a%20b", key="x", data="x")
    assert (tmp_path / "a b/x").read_text() == "x"


# -- memory -----------------------------------------------------------------------------------------------------------


def test_objects_in_memory_live_as_long_as_the_worker(caller: Caller) -> None:
    async def main() -> None:
        asked = {"url": "memory://shelf", "key": "a.txt"}
        await caller.ask(operation="put", data="here", **asked)
        assert (await caller.ask(operation="get", **asked)).result["data"] == "here"
        missing = await caller.ask(operation="get", url="memory://other", key="a.txt")
        assert missing.error is not None
        copied = await caller.ask(operation="copy", destination="memory://other/b.txt", **asked)
        assert copied.result["destination"] == "memory://other/b.txt"
        assert (await caller.ask(operation="get", url="memory://other", key="b.txt")).result["data"] == "here"

    caller.whole(main())
    assert caller.error(operation="get", url="memory://shelf", key="a.txt")[0] == "not_found"


# -- S3 ---------------------------------------------------------------------------------------------------------------


def test_a_path_in_the_url_is_a_folder_of_the_keys(server: S3Server, caller: Caller, s3_auth: dict[str, str]) -> None:
    bucket = server.bucket()
    url = f"s3://{bucket}/2026/03"
    caller.result(operation="put", url=url, key="a.txt", data="x", auth=s3_auth)
    server.client.put_object(Bucket=bucket, Key="2026/030", Body=b"")
    assert server.client.get_object(Bucket=bucket, Key="2026/03/a.txt")["Body"].read() == b"x"
    assert [one["key"] for one in caller.result(operation="list", url=url, auth=s3_auth)["objects"]] == ["a.txt"]
    caller.result(operation="copy", url=url, key="a.txt", destination="b.txt", auth=s3_auth)
    caller.result(operation="copy", url=url, key="a.txt", destination=f"s3://{bucket}/c.txt", auth=s3_auth)
    keys = [content["Key"] for content in server.client.list_objects_v2(Bucket=bucket)["Contents"]]
    assert keys == ["2026/03/a.txt", "2026/03/b.txt", "2026/030", "c.txt"]


def test_content_goes_from_store_to_store(
    server: S3Server, caller: Caller, s3_auth: dict[str, str], tmp_path: Path
) -> None:
    bucket = server.bucket()
    content = os.urandom(9 * 2**20)
    (tmp_path / "a.bin").write_bytes(content)
    up = {"url": f"file://{tmp_path}", "key": "a.bin", "destination": f"s3://{bucket}/deep/a.bin"}
    caller.result(operation="copy", **up, destination_auth=s3_auth)
    assert server.client.get_object(Bucket=bucket, Key="deep/a.bin")["Body"].read() == content
    down = {"url": f"s3://{bucket}/deep", "key": "a.bin", "destination": f"file://{tmp_path}/back/a.bin"}
    caller.result(operation="copy", **down, auth=s3_auth)
    assert (tmp_path / "back/a.bin").read_bytes() == content


def test_an_empty_object_can_be_copied(
    server: S3Server, caller: Caller, s3_auth: dict[str, str], tmp_path: Path
) -> None:
    bucket = server.bucket()
    (tmp_path / "empty").touch()
    goal = f"s3://{bucket}/empty"
    caller.result(operation="copy", url=f"file://{tmp_path}", key="empty", destination=goal, destination_auth=s3_auth)
    assert server.client.head_object(Bucket=bucket, Key="empty")["ContentLength"] == 0


# -- Google and Azure: there is no server of theirs that speaks the protocol of the driver ---------------------------


@pytest.mark.parametrize(
    ("url", "auth"),
    [
        ("gs://bucket", {"token": "t0ken-value"}),
        ("gs://bucket", {"anonymous": True}),
        ("az://container", {"account_name": "a", "account_key": "c2VjcmV0LXZhbHVl"}),
        ("az://container", {"account_name": "a", "sas_key": "sv=1&sig=s3cret-value"}),
        ("az://container", {"account_name": "a", "anonymous": True}),
    ],
    ids=["gs-token", "gs-anonymous", "az-key", "az-sas", "az-anonymous"],
)
def test_a_server_that_is_missing(caller: Caller, url: str, auth: dict[str, Any]) -> None:
    asked = {"operation": "get", "url": url, "key": "x", "endpoint": "http://127.0.0.1:1", "auth": auth}
    kind, message, retryable = caller.error(**asked)
    assert (kind, retryable) == ("connect", True), message
    assert "HTTP error: error sending request" in message
    assert "s3cret" not in message


@pytest.mark.parametrize(
    ("url", "auth", "says"),
    [
        ("s3://bucket", {}, "access_key_id"),
        ("gs://bucket", {"client_email": "a@b"}, "private_key"),
        ("gs://bucket", {"service_account": "no json"}, "not the text of a key file"),
        ("gs://bucket", {"client_email": "a@b", "private_key": "s3cret"}, "check `private_key`"),
        ("az://container", {"account_name": "a"}, "account_key"),
        ("az://container", {"account_name": "a", "account_key": "***"}, "give `auth`"),
        ("az://container", {"account_key": "c2VjcmV0"}, "give `auth`"),
    ],
    ids=["s3", "gs-half", "gs-text", "gs-key", "az-half", "az-key", "az-account"],
)
def test_credentials_that_are_none(caller: Caller, url: str, auth: dict[str, Any], says: str) -> None:
    kind, message, _ = caller.error(operation="list", url=url, auth=auth)
    assert (kind, says in message, "s3cret" in message) == ("auth", True, False), message


# -- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"operation": "list", "url": "bucket"}, "`url` must begin with s3://"),
        ({"operation": "list", "url": "http://x/y"}, "`url` must begin with s3://"),
        ({"operation": "list", "url": "file://data"}, "three slashes"),
        ({"operation": "list", "url": "s3://"}, "cannot be the name of a bucket"),
        ({"operation": "list", "url": "s3://b ucket"}, "cannot be the name of a bucket"),
        ({"operation": "get", "url": "memory://"}, "needs `key`"),
        ({"operation": "get", "url": "memory://", "key": "a", "destination_auth": "x"}, "takes no `destination_auth`"),
        ({"operation": "copy", "url": "memory://", "key": "a", "destination": "s3://bucket"}, "bucket"),
        ({"operation": "copy", "url": "memory://", "key": "a", "destination": "memory://x/"}, "must end with a key"),
        ({"operation": "copy", "url": "memory://", "key": "a", "destination": "ftp://x/y"}, "`destination` must begin"),
    ],
)
def test_inputs_that_make_no_sense(caller: Caller, inputs: dict[str, Any], says: str) -> None:
    kind, message, retryable = caller.error(**inputs)
    assert (kind, says in message, retryable) == ("input", True, False), message
