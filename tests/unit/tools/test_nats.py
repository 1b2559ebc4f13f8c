"""kind: nats against a NATS server with JetStream on loopback."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import nats as driver
import pytest
from nats.js import JetStreamContext
from nats.js.errors import NoKeysError
from nats.js.kv import KeyValue
from tests.servers.listening import listening
from tests.servers.nats import LIMITED, TOKEN, USER, NatsServer, nats_server
from tests.servers.patience import PATIENCE_SECONDS
from tests.servers.ports import reserved_port
from tests.servers.tool_call import ACTION, Caller, context

from noetl.model.outcome import Failure
from noetl.nats import client
from noetl.tools import nats, nats_operations


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with nats_server() as running:
        yield running


@pytest.fixture
def caller(server: NatsServer) -> Caller:
    return Caller(nats, url=server.url)


# -- messages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "sent"),
    [
        ("grüße", "grüße".encode()),
        ({"a": "007"}, b'{"a":"007"}'),
        ([1, None], b"[1,null]"),
        (12, b"12"),
        (None, b"null"),
        (b"\x00\xff", b"\x00\xff"),
        ("", b""),
    ],
    ids=["text", "map", "list", "number", "null", "bytes", "empty"],
)
def test_a_message_is_published(server: NatsServer, caller: Caller, data: Any, sent: bytes) -> None:
    subject = server.name()

    async def main() -> None:
        async with await driver.connect(server.url) as listener:
            heard = await listener.subscribe(subject)
            await client.flush(listener, PATIENCE_SECONDS)
            outcome = await caller.ask(operation="publish", subject=subject, data=data, headers={"X-Kind": "test: one"})
            assert outcome.result == {"subject": subject, "size": len(sent)}
            message = await heard.next_msg(timeout=PATIENCE_SECONDS)
            assert (message.data, message.headers) == (sent, {"X-Kind": "test: one"})

    caller.whole(main())


def test_a_stream_confirms_and_takes_each_action_once(server: NatsServer, caller: Caller) -> None:
    stream = server.stream()
    asked = {"operation": "publish", "subject": f"{stream}.paid", "stream": stream, "data": {"order": 1}}
    first = caller.result(**asked)
    again = caller.result(**asked)
    other = caller.result(context(action="another"), **asked)
    told = {"subject": f"{stream}.paid", "size": 11, "stream": stream}
    assert first == told | {"sequence": 1, "duplicate": False}
    assert again == told | {"sequence": 1, "duplicate": True}
    assert other == told | {"sequence": 2, "duplicate": False}

    async def look(_: Any, store: JetStreamContext) -> Any:
        return await store.get_msg(stream, 1)

    assert server.prepare(look).headers["Nats-Msg-Id"] == ACTION


def test_the_authors_own_message_id_counts(server: NatsServer, caller: Caller) -> None:
    stream = server.stream()
    asked = {"operation": "publish", "subject": f"{stream}.x", "stream": stream, "data": 1}
    headers = {"Nats-Msg-Id": "order-1"}
    assert caller.result(headers=headers, **asked)["duplicate"] is False
    assert caller.result(context(action="another"), headers=headers, **asked)["duplicate"] is True


def test_a_stream_that_does_not_take_it(server: NatsServer, caller: Caller) -> None:
    one, other = server.stream(), server.stream()
    kind, message, _ = caller.error(operation="publish", subject=f"{one}.x", stream=other, data=1)
    assert (kind, "belongs to another stream" in message) == ("input", True)
    nowhere = server.name()
    assert caller.error(operation="publish", subject=nowhere, stream=one, data=1) == (
        "not_found",
        f"subject {nowhere!r}: no stream has this subject",
        False,
    )


@pytest.mark.parametrize(
    ("answer", "form", "data"),
    [
        (b'{"a": "007"}', "auto", {"a": "007"}),
        (b" [1, 2]", "auto", [1, 2]),
        (b"007", "auto", "007"),
        (b"true", "auto", "true"),
        (b"{broken", "auto", "{broken"),
        (b"", "auto", ""),
        (b"\xff\x00", "auto", b"\xff\x00"),
        (b"7", "json", 7),
        (b'{"a": 1}', "text", '{"a": 1}'),
        (b'{"a": 1}', "bytes", b'{"a": 1}'),
    ],
    ids=["map", "list", "digits", "word", "broken", "empty", "binary", "json", "text", "bytes"],
)
def test_an_answer_is_read_by_its_format(
    server: NatsServer, caller: Caller, answer: bytes, form: str, data: Any
) -> None:
    subject = server.name()

    async def main() -> None:
        async with await driver.connect(server.url) as responder:

            async def respond(message: Any) -> None:
                await responder.publish(message.reply, answer, headers={"X-Seen": "yes"})

            await responder.subscribe(subject, cb=respond)
            await client.flush(responder, PATIENCE_SECONDS)
            outcome = await caller.ask(operation="request", subject=subject, data="?", format=form)
            assert outcome.result == {"data": data, "headers": {"X-Seen": "yes"}}

    caller.whole(main())


@pytest.mark.parametrize(("answer", "form"), [(b"{broken", "json"), (b"\xff", "text")])
def test_an_answer_in_another_format(server: NatsServer, caller: Caller, answer: bytes, form: str) -> None:
    bucket = server.keys()
    caller.result(operation="kv_put", bucket=bucket, key="k", data=answer)
    kind, message, _ = caller.error(operation="kv_get", bucket=bucket, key="k", format=form)
    assert (kind, message.startswith("the response is not")) == ("input", True)


def test_nobody_answers(server: NatsServer, caller: Caller) -> None:
    subject = server.name()
    assert caller.error(operation="request", subject=subject) == (
        "not_found",
        f"subject {subject!r}: no responder is subscribed",
        True,
    )


def test_a_request_can_be_cancelled_and_the_connection_is_kept(server: NatsServer, caller: Caller) -> None:
    subject = server.name()

    async def main() -> None:
        async with await driver.connect(server.url) as silent:
            heard = await silent.subscribe(subject)
            await client.flush(silent, PATIENCE_SECONDS)
            call = asyncio.create_task(caller.ask(operation="request", subject=subject, data="?"))
            message = await heard.next_msg(timeout=PATIENCE_SECONDS)
            before = client._POOL[asyncio.get_running_loop()].copy()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await message.respond(b"too late")
            assert (await caller.ask(operation="publish", subject=subject, data="!")).ok
            assert client._POOL[asyncio.get_running_loop()] == before

    caller.whole(main())


@pytest.mark.parametrize("operation", ["publish", "request", "kv_put"])
def test_a_call_may_be_cancelled_at_any_moment(server: NatsServer, caller: Caller, operation: str) -> None:
    subject, bucket = server.name(), server.keys()
    asked = {"publish": {"subject": subject}, "request": {"subject": subject}, "kv_put": {"bucket": bucket, "key": "k"}}

    async def main() -> None:
        for ticks in range(40):
            call = asyncio.create_task(caller.ask(operation=operation, data="x", **asked[operation]))
            for _ in range(ticks):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait((call,))
            assert (await caller.ask(operation="kv_keys", bucket=bucket)).ok
            assert (await caller.ask(operation="publish", subject=subject, data="x")).ok

    caller.whole(main())


def test_a_message_that_is_too_large(server: NatsServer, caller: Caller) -> None:
    kind, message, _ = caller.error(operation="publish", subject="x", data="x" * (2**20 + 1))
    assert (kind, "object_put" in message) == ("too_large", True)


# -- keys -------------------------------------------------------------------------------------------------------------


def test_keys_are_written_read_and_deleted(server: NatsServer, caller: Caller) -> None:
    bucket = server.keys()
    on = {"bucket": bucket, "key": "orders/A-1.state"}
    assert caller.result(operation="kv_keys", bucket=bucket) == {"keys": [], "count": 0}
    put = caller.result(operation="kv_put", data={"state": "paid"}, **on)
    assert put == {"key": on["key"], "revision": 1, "duplicate": False}
    assert caller.result(operation="kv_get", **on) == {"key": on["key"], "data": {"state": "paid"}, "revision": 1}
    assert caller.result(operation="kv_keys", bucket=bucket) == {"keys": [on["key"]], "count": 1}
    assert caller.result(context(action="delete"), operation="kv_delete", **on)["deleted"] is True
    assert caller.result(context(action="again"), operation="kv_delete", **on)["deleted"] is False
    assert caller.result(operation="kv_keys", bucket=bucket)["keys"] == []
    missing = caller.error(operation="kv_get", **on)
    assert missing == ("not_found", f"'orders/A-1.state' of bucket {bucket!r}: not found", False)


def test_keys_are_listed_also_when_the_driver_misses_them(
    server: NatsServer, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(self: KeyValue) -> list[str]:
        raise NoKeysError

    bucket = server.keys()
    for key in ("a", "b/c.d", "gone"):
        caller.result(context(action=key), operation="kv_put", bucket=bucket, key=key, data="x")
    caller.result(context(action="delete"), operation="kv_delete", bucket=bucket, key="gone")
    monkeypatch.setattr(KeyValue, "keys", none)
    assert caller.result(operation="kv_keys", bucket=bucket) == {"keys": ["a", "b/c.d"], "count": 2}


def test_a_revision_guards_a_key(server: NatsServer, caller: Caller) -> None:
    on = {"bucket": server.keys(), "key": "k"}

    def put(action: str, data: str, revision: int | None) -> Any:
        return caller.outcome(context(action=action), operation="kv_put", data=data, revision=revision, **on)

    assert put("a", "first", 0).result["revision"] == 1
    lost = put("b", "second", 0)
    assert lost.error is not None
    assert (lost.error.kind, lost.error.retryable, lost.extra["nats"]["conflict"]) == ("input", False, True)
    assert put("c", "second", 1).result["revision"] == 2
    assert put("d", "third", 1).error is not None
    assert caller.result(operation="kv_get", **on)["data"] == "second"
    stale = caller.outcome(context(action="e"), operation="kv_delete", revision=1, **on)
    assert stale.extra["nats"]["conflict"] is True
    assert caller.result(context(action="f"), operation="kv_delete", revision=2, **on)["deleted"] is True
    assert put("g", "again", 0).result["revision"] == 4  # a deleted key is no key


def test_a_write_that_is_repeated_happens_once(server: NatsServer, caller: Caller) -> None:
    """As after a crash: the same action again, though the revision has moved on by its own first try."""
    on = {"bucket": server.keys(), "key": "k", "data": "mine", "revision": 0}
    assert caller.result(operation="kv_put", **on) == {"key": "k", "revision": 1, "duplicate": False}
    assert caller.result(operation="kv_put", **on) == {"key": "k", "revision": 1, "duplicate": True}
    assert caller.outcome(context(action="another"), operation="kv_put", **on).extra["nats"]["conflict"] is True


@pytest.mark.parametrize("operation", ["kv_get", "kv_put", "kv_delete", "kv_keys", "object_get", "object_list"])
def test_a_bucket_that_is_missing(server: NatsServer, caller: Caller, operation: str) -> None:
    more = {"kv_put": {"data": 1}}.get(operation, {})
    key = {} if operation in ("kv_keys", "object_list") else {"key": "k"}
    kind, message, retryable = caller.error(operation=operation, bucket=server.name(), **key, **more)
    assert (kind, retryable, "bucket" in message) == ("not_found", False, True)


# -- objects ----------------------------------------------------------------------------------------------------------


def test_objects_are_stored_listed_and_deleted(server: NatsServer, caller: Caller) -> None:
    bucket = server.objects()
    on = {"bucket": bucket, "key": "reports/März 1.json"}
    assert caller.result(operation="object_list", bucket=bucket) == {"objects": [], "count": 0}
    put = caller.result(operation="object_put", data={"sum": 1}, **on)
    assert (put["key"], put["size"]) == (on["key"], 9)
    got = caller.result(operation="object_get", **on)
    assert (got["data"], got["size"], got["digest"]) == ({"sum": 1}, 9, put["digest"])
    (listed,) = caller.result(operation="object_list", bucket=bucket)["objects"]
    assert (listed["key"], listed["size"], listed["digest"]) == (on["key"], 9, put["digest"])
    assert caller.result(operation="object_delete", **on)["deleted"] is True
    assert caller.result(operation="object_delete", **on)["deleted"] is False
    assert caller.result(operation="object_list", bucket=bucket)["objects"] == []
    assert caller.error(operation="object_get", **on)[0] == "not_found"


def test_large_objects_go_through_files(server: NatsServer, caller: Caller, tmp_path: Path) -> None:
    on = {"bucket": server.objects(), "key": "big"}
    content = os.urandom(5 * 2**20)
    (tmp_path / "up").write_bytes(content)
    assert caller.result(operation="object_put", file=str(tmp_path / "up"), **on)["size"] == len(content)
    assert caller.result(operation="object_get", **on)["data"] == content
    got = caller.result(operation="object_get", file=str(tmp_path / "down"), **on)
    assert (got["file"], got["size"], "data" in got) == (str(tmp_path / "down"), len(content), False)
    assert (tmp_path / "down").read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["down", "up"]


def test_an_empty_object(server: NatsServer, caller: Caller, tmp_path: Path) -> None:
    on = {"bucket": server.objects(), "key": "empty"}
    caller.result(operation="object_put", data="", **on)
    assert caller.result(operation="object_get", **on)["data"] == ""
    caller.result(operation="object_get", file=str(tmp_path / "x"), **on)
    assert (tmp_path / "x").read_bytes() == b""


def test_an_object_above_the_limit_needs_a_file(
    server: NatsServer, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = {"bucket": server.objects(), "key": "x"}
    caller.result(operation="object_put", data="12345", **on)
    monkeypatch.setattr(nats_operations, "MAX_BYTES", 4)
    kind, message, _ = caller.error(operation="object_get", **on)
    assert (kind, "give `file`" in message) == ("too_large", True)


# -- logins -----------------------------------------------------------------------------------------------------------


def test_a_user_signs_in(server: NatsServer) -> None:
    caller = Caller(nats, auth={"kind": "basic", "servers": [server.url], **USER})
    assert caller.result(operation="publish", subject="x", data="x") == {"subject": "x", "size": 1}


def test_a_login_that_is_refused(server: NatsServer, caller: Caller) -> None:
    kind, message, retryable = caller.error(
        operation="publish", subject="x", data="x", auth={"user": "ada", "password": "wr0ng-password"}
    )
    assert (kind, retryable) == ("auth", False)
    assert "rejected the login" in message
    assert "wr0ng" not in message


def test_a_token_signs_in() -> None:
    with nats_server(TOKEN) as server:
        caller = Caller(nats, url=server.url, operation="publish", subject="x", data="x")
        assert caller.error()[0] == "auth"
        assert caller.error(auth={"token": "wr0ng-token"})[0] == "auth"
        assert caller.result(auth={"token": "s3cret-token"})["size"] == 1


def test_creds_are_the_text_of_their_file(caller: Caller) -> None:
    asked = {"operation": "publish", "subject": "x", "data": "x"}
    kind, message, _ = caller.error(auth={"creds": "/home/ada/ada.creds"}, **asked)
    assert (kind, "text of a .creds file" in message) == ("auth", True)


@pytest.mark.parametrize("stream", [None, "orders"])
@pytest.mark.parametrize("operation", ["publish", "request"])
def test_a_subject_without_permission_is_refused_at_once(caller: Caller, operation: str, stream: str | None) -> None:
    more: dict[str, Any] = {"data": "x"}
    if stream is not None and operation == "publish":
        more["stream"] = stream
    kind, message, _ = caller.error(operation=operation, subject="closed.door", auth=LIMITED, **more)
    assert (kind, message) == ("auth", "NATS denies access to 'closed.door': the login has no permission for it")
    assert caller.result(operation="publish", subject="open.door", data="x", auth=LIMITED)["size"] == 1


def test_a_bucket_without_permission_is_refused_at_once(server: NatsServer, caller: Caller) -> None:
    bucket = server.keys()
    for operation, more in (("kv_get", {"key": "k"}), ("kv_put", {"key": "k", "data": 1}), ("kv_keys", {})):
        kind, message, _ = caller.error(operation=operation, bucket=bucket, auth=LIMITED, **more)
        assert (kind, message) == ("auth", f"NATS denies access to {bucket!r}: the login has no permission for it")


def test_a_refusal_is_not_told_to_others(server: NatsServer, caller: Caller) -> None:
    async def main() -> None:
        asking, denied = asyncio.Event(), asyncio.Event()

        async def respond(message: Any) -> None:
            asking.set()
            await denied.wait()
            await message.respond(b"here")

        async with await driver.connect(server.url) as responder:
            await responder.subscribe("open.do", cb=respond)
            await client.flush(responder, PATIENCE_SECONDS)
            request = asyncio.create_task(caller.ask(operation="request", subject="open.do", auth=LIMITED))
            await asking.wait()
            refusal = await caller.ask(operation="publish", subject="do", data=1, auth=LIMITED)
            assert refusal.error is not None
            assert refusal.error.kind == "auth"
            denied.set()
            assert (await request).result["data"] == "here"

    caller.whole(main())


# -- servers that are not there ---------------------------------------------------------------------------------------


def test_a_server_that_is_missing(caller: Caller) -> None:
    url = "nats://ada:s3cret-password@127.0.0.1:1"
    kind, message, retryable = caller.error(operation="publish", subject="x", data="x", url=url)
    assert (kind, retryable) == ("connect", True)
    assert message.startswith("no connection to NATS at 127.0.0.1:1: ")
    assert "s3cret" not in message


def test_a_server_that_says_nothing(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONNECT_SECONDS", 0.2)

    async def main() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()

        async with listening(silent) as port:
            url = f"nats://127.0.0.1:{port}"
            outcomes = await asyncio.gather(
                *(caller.ask(operation="publish", subject="x", data="x", url=url) for _ in range(20))
            )
        kinds = {outcome.error.kind for outcome in outcomes if outcome.error is not None}
        assert (len(outcomes), kinds) == (20, {"connect"})

    caller.whole(main())


def test_the_next_server_is_tried(server: NatsServer, caller: Caller) -> None:
    urls = ["nats://127.0.0.1:1", server.url]
    assert caller.result(operation="publish", subject="x", data="x", url=urls)["size"] == 1


def test_a_server_that_comes_back_is_found_by_the_next_call(caller: Caller) -> None:
    port = reserved_port()
    with nats_server(port=port) as first:

        async def main() -> None:
            asked = {"operation": "publish", "subject": "x", "data": "x", "url": first.url}
            assert (await caller.ask(**asked)).ok
            first.process.kill()
            await asyncio.to_thread(first.process.wait)
            gone = await caller.ask(**asked)
            assert gone.error is not None
            assert (gone.error.kind, gone.error.retryable) == ("connect", True)
            with nats_server(port=port):
                assert (await caller.ask(**asked)).ok

        caller.whole(main())


def test_a_connection_that_breaks_fails_the_calls_on_it(caller: Caller) -> None:
    async def main() -> None:
        with nats_server() as server:
            async with await driver.connect(server.url, allow_reconnect=False) as silent:
                heard = await silent.subscribe("ask")
                await client.flush(silent, PATIENCE_SECONDS)
                call = asyncio.create_task(caller.ask(operation="request", subject="ask", url=server.url))
                await heard.next_msg(timeout=PATIENCE_SECONDS)
                server.process.kill()
                outcome = await call
                assert outcome.error is not None
                assert (outcome.error.kind, outcome.error.retryable) == ("connect", True)
                assert "broke" in outcome.error.message

    caller.whole(main())


def test_connections_are_shared_and_bounded(server: NatsServer, caller: Caller) -> None:
    async def main() -> None:
        asked = {"operation": "publish", "subject": "x", "data": "x"}
        lines = client._POOL.setdefault(asyncio.get_running_loop(), {})
        await asyncio.gather(*(caller.ask(**asked) for _ in range(50)))
        assert len(lines) == 1
        host = server.url.rpartition("/")[2]
        for number in range(client.POOL_SIZE + 5):
            assert (await caller.ask(url=[server.url, f"nats://{host}/"] * (number + 1), **asked)).ok
        assert len(lines) == client.POOL_SIZE

    caller.whole(main())


# -- inputs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"operation": "publish", "data": 1}, "needs `subject`"),
        ({"operation": "publish", "subject": "x"}, "needs `data`"),
        ({"operation": "publish", "subject": "x", "data": 1, "bucket": "b"}, "takes no `bucket`"),
        ({"operation": "publish", "subject": "x", "data": 1, "format": "text"}, "takes no `format`"),
        ({"operation": "publish", "subject": "a b", "data": 1}, "cannot be a `subject`"),
        ({"operation": "publish", "subject": "a.*", "data": 1}, "cannot be a `subject`"),
        ({"operation": "publish", "subject": "a.>", "data": 1}, "cannot be a `subject`"),
        ({"operation": "publish", "subject": "a\r\nPUB x", "data": 1}, "cannot be a `subject`"),
        ({"operation": "publish", "subject": "x", "data": 1, "headers": {"A": "b\r\nc: d"}}, "cannot be a header"),
        ({"operation": "publish", "subject": "x", "data": 1, "headers": {"A b": "c"}}, "cannot be a header"),
        ({"operation": "publish", "subject": "x", "data": 1, "stream": "a.b"}, "cannot be a `stream`"),
        ({"operation": "request", "subject": "x", "stream": "s"}, "takes no `stream`"),
        ({"operation": "kv_get", "bucket": "b"}, "needs `key`"),
        ({"operation": "kv_get", "bucket": "b", "key": "a.>"}, "cannot be a `key`"),
        ({"operation": "kv_put", "bucket": "b", "key": "k"}, "needs `data`"),
        ({"operation": "kv_keys", "bucket": "b.c"}, "cannot be a `bucket`"),
        ({"operation": "object_put", "bucket": "b", "key": "k"}, "needs either `data` or `file`"),
        ({"operation": "publish", "subject": "x", "data": 1, "url": None}, "no server to connect to"),
        ({"operation": "publish", "subject": "x", "data": 1, "url": "localhost"}, "must be an address"),
    ],
    ids=str,
)
def test_inputs_that_make_no_sense(caller: Caller, inputs: dict[str, Any], says: str) -> None:
    kind, message, retryable = caller.error(**inputs)
    assert (kind, says in message, retryable) == ("input", True, False), message


def test_a_value_that_json_has_not(caller: Caller) -> None:
    inputs = msgspec.convert({"operation": "publish", "url": "nats://x", "subject": "x"}, nats.Inputs)
    inputs.data = {1: object()}
    with pytest.raises(Failure, match="cannot be written as JSON"):
        caller.whole(nats.run(inputs, context()))
