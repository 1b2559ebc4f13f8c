"""The operations of kind nats."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from io import BytesIO
from typing import Any

import msgspec
from msgspec import UNSET
from nats import errors
from nats.aio.client import Client
from nats.js import errors as stream_errors

from noetl.json_errors import NOT_JSON
from noetl.model.outcome import Failure, Outcome
from noetl.nats.client import error_text, flush, open_connection, shared_connection
from noetl.settings import NatsSettings
from noetl.tools.base import Context
from noetl.tools.nats import Inputs
from noetl.tools.object_store.content import MAX_BYTES, encode, incoming, readable, too_large

STREAMING = frozenset(["kv_keys", "object_get", "object_put", "object_delete", "object_list"])
"""Operations that need a connection of their own."""
RESPONSE_SECONDS = 10.0
"""How long JetStream may take to respond; how long a responder may take is the task's time limit."""
MSG_ID = "Nats-Msg-Id"
WRONG_REVISION = frozenset([10071, 10164])


async def perform(inputs: Inputs, login: NatsSettings, context: Context) -> Outcome:
    payload = b"" if inputs.data is UNSET else encode(inputs.data)[0]
    # The server names the subject that it denies, and those of a bucket contain its name.
    name = inputs.subject or inputs.bucket or ""
    connect = open_connection if inputs.operation in STREAMING else shared_connection
    async with connect(login) as connection:
        operation = Operation(connection.client, inputs, payload, context.idempotency_key)
        return await connection.guard(operation.run(), name)


class Operation:
    def __init__(self, client: Client, inputs: Inputs, payload: bytes, message_id: str) -> None:
        self.client, self.inputs, self.payload, self.message_id = client, inputs, payload, message_id
        self.jetstream = client.jetstream(timeout=RESPONSE_SECONDS)
        self.subject, self.bucket, self.key = inputs.subject or "", inputs.bucket or "", inputs.key or ""
        self.headers = dict(inputs.headers)

    async def run(self) -> Outcome:
        method: Callable[[], Awaitable[Outcome]] = getattr(self, self.inputs.operation)
        try:
            return await method()
        except errors.Error as error:
            raise _failure(error, str(self)) from None

    def __str__(self) -> str:
        if self.subject:
            return f"subject {self.subject!r}"
        return f"{self.key!r} of bucket {self.bucket!r}" if self.key else f"bucket {self.bucket!r}"

    async def publish(self) -> Outcome:
        result = {"subject": self.subject, "size": len(self.payload)}
        if self.inputs.stream is None:
            await self.client.publish(self.subject, self.payload, headers=self.headers or None)
            await flush(self.client, RESPONSE_SECONDS)
            return _done(result)
        headers = {MSG_ID: self.message_id} | self.headers
        ack = await self.jetstream.publish(self.subject, self.payload, stream=self.inputs.stream, headers=headers)
        extra = {"stream": ack.stream, "sequence": ack.seq, "duplicate": bool(ack.duplicate)}
        return _done(result | extra, **extra)

    async def request(self) -> Outcome:
        limit: Any = None  # that of the worker
        response = await self.client.request(self.subject, self.payload, timeout=limit, headers=self.headers or None)
        headers = dict(response.headers or {})
        return _done({"data": _decode(response.data, self.inputs.format), "headers": headers}, headers=headers)

    async def kv_get(self) -> Outcome:
        entry = await (await self.jetstream.key_value(self.bucket)).get(self.key)
        data = _decode(entry.value or b"", self.inputs.format)
        return _done({"key": self.key, "data": data, "revision": entry.revision}, revision=entry.revision)

    async def kv_put(self) -> Outcome:
        """Publishes the message that a key is, since the library's own `put` takes no message id."""
        try:
            revision, duplicate = await self._write(self.payload, self.inputs.revision)
        except WrongRevision as conflict:
            # The server checks revisions before duplicates: the write in the way may be this very one.
            last = await self.jetstream.get_last_msg(f"KV_{self.bucket}", f"$KV.{self.bucket}.{self.key}")
            last_headers = last.headers or {}
            if last_headers.get(MSG_ID) == self.message_id:
                revision, duplicate = last.seq or 0, True
            elif self.inputs.revision == 0 and last_headers.get("KV-Operation") in ("DEL", "PURGE"):
                # A deleted key does not exist, but its revisions go on.
                revision, duplicate = await self._write(self.payload, last.seq)
            else:
                raise conflict from None
        return _done({"key": self.key, "revision": revision, "duplicate": duplicate}, revision=revision)

    async def kv_delete(self) -> Outcome:
        try:
            await (await self.jetstream.key_value(self.bucket)).get(self.key)
        except stream_errors.KeyNotFoundError:
            return _done({"key": self.key, "deleted": False})
        await self._write(b"", self.inputs.revision, {"KV-Operation": "DEL"})
        return _done({"key": self.key, "deleted": True})

    async def _write(self, payload: bytes, expected: int | None, own: Mapping[str, str] = {}) -> tuple[int, bool]:
        headers = {MSG_ID: self.message_id, **own}
        if expected is not None:
            headers["Nats-Expected-Last-Subject-Sequence"] = str(expected)
        try:
            ack = await self.jetstream.publish(f"$KV.{self.bucket}.{self.key}", payload, headers=headers)
        except stream_errors.NoStreamResponseError:
            raise Failure("not_found", f"{self}: the bucket does not exist") from None
        except stream_errors.APIError as error:
            if error.err_code not in WRONG_REVISION:
                raise
            message = f"{self} has another revision than {self.inputs.revision}: {error.description}"
            extra = {"nats": {"code": error.err_code, "conflict": True}}
            raise WrongRevision("input", message, extra=extra) from None
        return ack.seq, bool(ack.duplicate)

    async def kv_keys(self) -> Outcome:
        bucket = await self.jetstream.key_value(self.bucket)
        try:
            keys = await bucket.keys()
        except stream_errors.NoKeysError:
            # The driver also says so if the server sent all keys before the driver began to read them: read each.
            prefix, keys = f"$KV.{self.bucket}.", []
            info = await self.jetstream.stream_info(f"KV_{self.bucket}", subjects_filter=f"{prefix}>")
            for subject in info.state.subjects or {}:
                with suppress(stream_errors.KeyNotFoundError):  # it was deleted
                    await bucket.get(key := subject.removeprefix(prefix))
                    keys.append(key)
        return _done({"keys": sorted(keys), "count": len(keys)})

    async def object_get(self) -> Outcome:
        bucket = await self.jetstream.object_store(self.bucket)
        info = await bucket.get_info(self.key)
        size = info.size or 0
        result = {"key": self.key, "size": size, "digest": info.digest, "headers": info.headers or {}}
        if self.inputs.file is not None:
            with incoming(self.inputs.file) as part:
                await bucket.get(self.key, writeinto=part)  # type: ignore[arg-type]
            return _done(result | {"file": self.inputs.file})
        if size > MAX_BYTES:
            raise too_large(self.key, size)
        content = BytesIO()
        await bucket.get(self.key, writeinto=content)
        return _done(result | {"data": _decode(content.getvalue(), self.inputs.format)})

    async def object_put(self) -> Outcome:
        bucket = await self.jetstream.object_store(self.bucket)
        file = self.inputs.file
        with BytesIO(self.payload) if file is None else readable(file)[0].open("rb") as content:
            info = await bucket.put(self.key, content)
        return _done({"key": self.key, "size": info.size, "digest": info.digest})

    async def object_delete(self) -> Outcome:
        bucket = await self.jetstream.object_store(self.bucket)
        deleted = False
        with suppress(stream_errors.ObjectNotFoundError):
            await bucket.delete(self.key)
            deleted = True
        return _done({"key": self.key, "deleted": deleted})

    async def object_list(self) -> Outcome:
        bucket = await self.jetstream.object_store(self.bucket)
        try:
            infos = await bucket.list(ignore_deletes=True)
        except stream_errors.NotFoundError:
            infos = []
        objects = [
            {"key": info.name, "size": info.size or 0, "updated": info.mtime, "digest": info.digest}
            for info in infos
            if not info.deleted
        ]
        return _done({"objects": sorted(objects, key=lambda entry: str(entry["key"])), "count": len(objects)})


class WrongRevision(Failure): ...


def _done(result: Any, **extra: Any) -> Outcome:
    return Outcome(result=result, extra={"nats": extra})


def _decode(content: bytes, form: str) -> Any:
    if form == "bytes":
        return content
    if form == "json" or (form == "auto" and content.lstrip()[:1] in (b"{", b"[")):
        try:
            return msgspec.json.decode(content)
        except NOT_JSON as error:
            if form == "json":
                raise Failure("input", f"the response is not JSON: {error}") from None
    try:
        return content.decode()
    except UnicodeDecodeError:
        if form == "text":
            raise Failure("input", "the response is not UTF-8 text: leave `format: text` out") from None
        return content


FAILURES: list[tuple[type[Exception], str, str, bool]] = [
    (errors.NoRespondersError, "not_found", "no responder is subscribed", True),
    (stream_errors.NoStreamResponseError, "not_found", "no stream has this subject", False),
    (stream_errors.BucketNotFoundError, "not_found", "the bucket does not exist", False),
    (stream_errors.ServiceUnavailableError, "connect", "JetStream is unavailable: {}", True),
    (stream_errors.ServerError, "connect", "JetStream is unavailable: {}", True),
    (stream_errors.NotFoundError, "not_found", "not found", False),
    (errors.MaxPayloadError, "too_large", "the message is above the limit of the server: use `object_put`", False),
    (errors.TimeoutError, "timeout", f"no response within {RESPONSE_SECONDS:g} seconds", True),
    (stream_errors.Error, "input", "{}", False),
    (Exception, "connect", "{}", True),
]
"""The first that matches an error: its kind, the reason in the message, and whether it is retryable."""


def _failure(error: Exception, subject: str) -> Failure:
    code = getattr(error, "err_code", None)
    kind, reason, retryable = next(row[1:] for row in FAILURES if isinstance(error, row[0]))
    if code == 10060:
        reason = "the subject belongs to another stream: {}"
    extra = {"nats": {"code": code, "conflict": False}}
    return Failure(kind, f"{subject}: {reason.format(error_text(error))}", retryable=retryable, extra=extra)
