"""kind: nats. Messages, keys and objects on a NATS server.

What is sent: text as it is, bytes as they are, any other value as JSON. What comes back is told by `format`. NATS keeps
no media type, so by default (`auto`) the content itself decides: a JSON object or array is a value, other text is text
("007" stays "007"), and what is no UTF-8 is bytes.

A message that a stream confirms, and a key that is written, carry the action id as `Nats-Msg-Id`: the server takes
each once within its window for duplicates, however often a call is repeated after a crash.

Fields of a credential: `servers` (or `url`), and `user` with `password`, `token`, or `creds`, which is the text of a
.creds file.

Connections are kept per event loop, servers and credential. One that breaks fails the calls that wait for it at once
(`connect`), and the next call opens another. Operations that read a stream of messages (objects, lists of keys) have a
connection of their own: one that is abandoned halfway can only be ended by closing it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar
from weakref import WeakKeyDictionary

import msgspec
from msgspec import UNSET, Meta, Struct

from noetl.model.kind import Kind
from noetl.model.outcome import Failure, Outcome
from noetl.tools.base import Context, missing_driver
from noetl.tools.fields import Auth
from noetl.tools.object_store.content import MAX_BYTES, encode, incoming, readable, too_large

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future, Task

    from nats.aio.client import Client
    from nats.js import JetStreamContext

T = TypeVar("T")

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0
"""How long JetStream may take to answer; how long a responder may is the task's time limit."""
MAX_BACKOFF_SECONDS = 2.0
POOLED = 32
"""Connections kept open for an event loop."""
MISSING_SIGNER = "`creds` need a package that is not installed: pip install nkeys"
KEY = r"[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*"
NAME = r"[-_a-zA-Z0-9]+"
SUBJECT = r"[^\s.*>]+(\.[^\s.*>]+)*"
CONTROL = r"[\x00-\x1f\x7f]"
REFUSED = r"(?i)permissions violation for .*?\"(.*?)\""
MSG_ID = "Nats-Msg-Id"
EXPECTED_REVISION = "Nats-Expected-Last-Subject-Sequence"
WRONG_REVISION = frozenset([10071, 10164])
WRONG_STREAM = 10060

USES: dict[str, frozenset[str]] = {
    "publish": frozenset(["subject", "data", "headers", "stream"]),
    "request": frozenset(["subject", "data", "headers", "format"]),
    "kv_get": frozenset(["bucket", "key", "format"]),
    "kv_put": frozenset(["bucket", "key", "data", "revision"]),
    "kv_delete": frozenset(["bucket", "key", "revision"]),
    "kv_keys": frozenset(["bucket"]),
    "object_get": frozenset(["bucket", "key", "file", "format"]),
    "object_put": frozenset(["bucket", "key", "data", "file"]),
    "object_delete": frozenset(["bucket", "key"]),
    "object_list": frozenset(["bucket"]),
}
UNGIVEN: dict[str, Any] = {
    "subject": None,
    "stream": None,
    "bucket": None,
    "key": None,
    "data": UNSET,
    "file": None,
    "headers": {},
    "revision": None,
    "format": "auto",
}
NEEDED = ("subject", "bucket", "key")
STREAMING = frozenset(["kv_keys", "object_get", "object_put", "object_delete", "object_list"])


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    operation: Annotated[
        Literal[
            "publish",
            "request",
            "kv_get",
            "kv_put",
            "kv_delete",
            "kv_keys",
            "object_get",
            "object_put",
            "object_delete",
            "object_list",
        ],
        Meta(description="What to do"),
    ]
    url: Annotated[
        str | list[str] | None, Meta(description="Servers, if `auth` does not name them: `nats://host:4222`")
    ] = None
    subject: Annotated[str | None, Meta(description="Subject to publish to or to ask")] = None
    stream: Annotated[str | None, Meta(description="JetStream stream that must confirm what is published")] = None
    bucket: Annotated[str | None, Meta(description="Bucket of keys or of objects")] = None
    key: Annotated[str | None, Meta(description="Key, or name of the object")] = None
    data: Annotated[
        Any,
        Meta(description="What to send or to store: text as it is, a result reference as its bytes, else JSON"),
    ] = UNSET
    file: Annotated[
        str | None, Meta(description="File on the worker that `object_put` reads, or that `object_get` writes")
    ] = None
    headers: Annotated[dict[str, str], Meta(description="Headers of the message")] = {}
    revision: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Revision the key must still have for `kv_put` and `kv_delete`; 0 means no such key yet"),
    ] = None
    format: Annotated[
        Literal["auto", "json", "text", "bytes"],
        Meta(description="How what comes back is read; `auto` takes JSON objects and arrays as values"),
    ] = "auto"
    auth: Auth = None


KIND = Kind(
    name="nats",
    summary="Publishes, asks, and reads or writes keys and objects on NATS",
    inputs=Inputs,
    timeout=60,
    extra="nats",
    outcome="nats",
)


async def run(inputs: Inputs, context: Context) -> Outcome:
    """One operation."""
    try:
        import nats.js.errors  # noqa: F401 - is the driver there?
    except ImportError:
        return missing_driver(KIND.name, "nats")
    try:
        _check(inputs)
        payload = b"" if inputs.data is UNSET else encode(inputs.data)[0]
        login = _login(inputs, None if inputs.auth is None else await context.credential(inputs.auth))
        async with _line(inputs, login, context.retries) as line:
            work = _operate(line.client, inputs, payload, context)
            # A refusal of the server names the subject, and those of a bucket have its name in them.
            return await line.guard(work, inputs.subject or _bucket(inputs))
    except Failure as failure:
        return failure.outcome


# -- inputs -----------------------------------------------------------------------------------------------------------


def _check(inputs: Inputs) -> None:
    operation = inputs.operation
    uses = USES[operation]
    for name, ungiven in UNGIVEN.items():
        given = getattr(inputs, name)
        if name not in uses and given != ungiven:
            raise Failure("input", f"operation {operation} takes no `{name}`: leave it out")
        if name in uses and name in NEEDED and not given:
            raise Failure("input", f"operation {operation} needs a `{name}`")
    if operation in ("kv_put", "publish") and inputs.data is UNSET:
        raise Failure("input", f"operation {operation} needs `data`")
    if operation == "object_put" and (inputs.data is UNSET) == (inputs.file is None):
        raise Failure("input", "operation object_put needs either `data` or `file`")
    _check_names(inputs)


def _check_names(inputs: Inputs) -> None:
    """Names become parts of subjects, where a space or a wildcard would mean something else."""
    shapes = [("subject", SUBJECT), ("stream", NAME), ("bucket", NAME)]
    if inputs.operation.startswith("kv_"):
        shapes.append(("key", KEY))
    for name, shape in shapes:
        given = getattr(inputs, name)
        if given is not None and not re.fullmatch(shape, given):
            raise Failure("input", f"{given!r} can't be a `{name}`")
    for name, value in inputs.headers.items():
        if not re.fullmatch(r"[!-9;-~]+", name) or re.search(CONTROL, value):
            raise Failure("input", f"{name!r} can't be a header: names are one word, values one line")


def _subject(inputs: Inputs) -> str:
    assert inputs.subject is not None
    return inputs.subject


def _bucket(inputs: Inputs) -> str:
    assert inputs.bucket is not None
    return inputs.bucket


def _key(inputs: Inputs) -> str:
    assert inputs.key is not None
    return inputs.key


def _shown(inputs: Inputs) -> str:
    """What an operation is about, for people."""
    if inputs.subject is not None:
        return f"subject {inputs.subject!r}"
    return f"bucket {inputs.bucket!r}" if inputs.key is None else f"{inputs.key!r} of bucket {inputs.bucket!r}"


# -- connections ------------------------------------------------------------------------------------------------------


class Login(Struct, frozen=True):
    """Where to connect, and as whom."""

    servers: tuple[str, ...]
    user: str | None = None
    password: str | None = None
    token: str | None = None
    creds: str | None = None

    def shown(self) -> str:
        """The servers without what an address may hold of a login."""
        return ", ".join(server.partition("://")[2].rpartition("@")[2].rstrip("/") for server in self.servers)


def _login(inputs: Inputs, fields: dict[str, Any] | None) -> Login:
    fields = fields or {}
    given = fields.get("servers") or fields.get("url") or inputs.url
    servers = [given] if isinstance(given, str) else list(given or [])
    if not servers:
        raise Failure("input", "no server to connect to: give `url`, or `servers` in the credential")
    for server in servers:
        if not isinstance(server, str) or not re.fullmatch(r"(nats|tls|ws|wss)://[^\s/]+/?", server):
            raise Failure("input", "a server must be an address such as nats://host:4222")
    login = {name: str(fields[name]) for name in ("user", "password", "token", "creds") if fields.get(name)}
    if "creds" in login and "BEGIN NATS USER JWT" not in login["creds"]:
        raise Failure("auth", "`creds` of the credential must be the text of a .creds file")
    return Login(tuple(servers), **login)


def _host(server: str) -> str:
    from urllib.parse import urlsplit

    try:
        host = urlsplit(server).hostname
    except ValueError:
        host = None
    if not host:
        raise Failure("input", "a server must be an address such as nats://host:4222")
    return host


class Line:
    """One connection, and the calls that wait for something on it."""

    def __init__(self, login: Login, options: dict[str, Any] | None = None) -> None:
        from nats.aio.client import Client

        self.login, self.options = login, options or {}
        self.client: Client = Client()
        self.alarms: dict[Future[None], str] = {}
        """For each call that waits: what it is about."""
        self.over = False
        self.fault: Exception | None = None
        """What went wrong last; the driver itself ends with the news that no server is left."""

    async def connect(self) -> None:
        """Try each server once; the error of the last is the one that counts."""
        import asyncio

        from nats.errors import Error

        for number, server in enumerate(self.login.servers, 1):
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._connect(server)
            except (OSError, Error, ValueError) as error:
                await self.close()
                if number == len(self.login.servers):
                    raise _unconnected(self.login, self.fault or error) from None
            except ImportError:
                raise Failure("not_found", MISSING_SIGNER) from None
            else:
                return

    async def _connect(self, server: str) -> None:
        """Once the connection is lost it stays lost: what a call has sent is not sent again behind its back."""
        from nats.aio.client import Client, RawCredentials

        from noetl.addresses import check_host

        await check_host(_host(server))

        login, self.fault = self.login, None
        self.client = Client()
        await self.client.connect(
            [server],
            allow_reconnect=False,
            verbose=True,  # the answer to the login is awaited: else its refusal can be lost when the server closes
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=CONNECT_SECONDS,  # type: ignore[arg-type]
            error_cb=self._erred,
            name="noetl",
            user=login.user,
            password=login.password,
            token=login.token,
            user_credentials=None if login.creds is None else RawCredentials(login.creds),
            **self.options,
        )
        if not self.client.is_connected:  # the driver takes the end of the stream for an answer
            raise ConnectionResetError("the server closed the connection")
        assert self.client._reading_task is not None
        self.client._reading_task.add_done_callback(self._ended)

    async def _erred(self, error: Exception) -> None:
        """The server refuses a subject. It names the subject and no call: those that are about it hear of it."""
        self.fault = error
        if (refused := re.search(REFUSED, str(error))) is None:
            return
        for alarm, name in self.alarms.items():
            if not alarm.done() and _concerns(refused[1], name):
                alarm.set_exception(Failure("auth", f"NATS refuses {name}: the login has no permission for it"))

    def _ended(self, reader: Task[Any]) -> None:
        """Nobody reads from the connection any more: it was closed, or the driver has given up on it."""
        self.over = True
        for alarm in self.alarms:
            if not alarm.done():
                message = f"the connection to NATS at {self.login.shown()} broke"
                alarm.set_exception(Failure("connect", message, retryable=True))

    async def guard(self, work: Coroutine[Any, Any, T], name: str) -> T:
        """The result of work on this line, unless the line breaks or the server refuses what the work is about."""
        import asyncio

        alarm: Future[None] = asyncio.get_running_loop().create_future()
        self.alarms[alarm] = name
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait((task, alarm), return_when=asyncio.FIRST_COMPLETED)
            if alarm.done():
                alarm.result()
            return task.result()
        finally:
            del self.alarms[alarm]
            alarm.cancel()
            task.cancel()
            await asyncio.wait((task,), timeout=CONNECT_SECONDS)
            if task.done() and not task.cancelled():
                task.exception()  # it has been looked at: nobody shall report it as forgotten

    @property
    def idle(self) -> bool:
        return not self.alarms

    async def close(self) -> None:
        """Of a connection that is broken the driver may fail to close the rest."""
        from nats.errors import Error

        with suppress(OSError, Error):
            await self.client.close()
        if (transport := self.client._transport) is not None:
            transport.close()  # type: ignore[no-untyped-call]


def _concerns(subject: str, name: str) -> bool:
    """Whether a subject that was refused is the one a call is about, or belongs to its bucket, or is where answers
    would come. The driver hands the server's words on in small letters."""
    subject, name = subject.lower(), name.lower()
    own = {name, f"kv_{name}", f"obj_{name}"}
    return subject == name or subject.startswith("_inbox.") or not own.isdisjoint(subject.split("."))


_LINES: WeakKeyDictionary[AbstractEventLoop, dict[Login, Task[Line]]] = WeakKeyDictionary()
"""A connection, or the attempt at one, which calls that come together share."""


@asynccontextmanager
async def _line(inputs: Inputs, login: Login, retries: int) -> AsyncIterator[Line]:
    if inputs.operation not in STREAMING:
        yield await _shared(login, retries)
        return
    line = await _opened(login, retries)
    try:
        yield line
    finally:
        await line.close()


async def _shared(login: Login, retries: int) -> Line:
    import asyncio

    lines = _LINES.setdefault(asyncio.get_running_loop(), {})
    opening = lines.pop(login, None)
    if opening is not None and opening.done() and not _usable(opening):
        await _put_away(opening)
        opening = lines.pop(login, None)  # somebody else may have been quicker
    if opening is None:
        opening = asyncio.ensure_future(_opened(login, retries))
        opening.add_done_callback(_usable)
    lines[login] = opening
    await _thin_out(lines)
    return await asyncio.shield(opening)


def _usable(opening: Task[Line]) -> bool:
    """Whether an attempt has led to a connection that still stands."""
    return not opening.cancelled() and opening.exception() is None and not opening.result().over


async def _put_away(opening: Task[Line]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        await opening.result().close()


async def _thin_out(lines: dict[Login, Task[Line]]) -> None:
    """Close what has not been used for longest, where there are too many."""
    surplus = list(lines.items())[:-POOLED]
    for login, opening in surplus:
        if opening.done() and (not _usable(opening) or opening.result().idle):
            del lines[login]
            await _put_away(opening)


async def _opened(login: Login, retries: int) -> Line:
    """A new connection; a server that is not there is tried again."""
    import asyncio

    for attempt in range(retries + 1):
        line = Line(login)
        try:
            await line.connect()
            return line
        except Failure as failure:
            error = failure.outcome.error
            if error is None or not error.retryable or attempt == retries:
                raise
        except BaseException:
            await line.close()
            raise
        await asyncio.sleep(min(0.1 * 2**attempt, MAX_BACKOFF_SECONDS))
    raise AssertionError("unreachable")


async def close() -> None:
    """Close the connections of the running event loop."""
    import asyncio

    for opening in _LINES.pop(asyncio.get_running_loop(), {}).values():
        opening.cancel()
        await asyncio.wait((opening,))
        await _put_away(opening)


# -- operations -------------------------------------------------------------------------------------------------------


async def _operate(client: Client, inputs: Inputs, payload: bytes, context: Context) -> Outcome:
    """One operation, with a failure in the place of what the driver raises."""
    from nats.errors import Error

    store = client.jetstream(timeout=ANSWER_SECONDS)
    operations: dict[str, Callable[[], Awaitable[Outcome]]] = {
        "publish": lambda: _publish(client, inputs, payload, context),
        "request": lambda: _request(client, inputs, payload),
        "kv_get": lambda: _kv_get(store, inputs),
        "kv_put": lambda: _kv_put(store, inputs, payload, context),
        "kv_delete": lambda: _kv_delete(store, inputs, context),
        "kv_keys": lambda: _kv_keys(store, inputs),
        "object_get": lambda: _object_get(store, inputs),
        "object_put": lambda: _object_put(store, inputs, payload),
        "object_delete": lambda: _object_delete(store, inputs),
        "object_list": lambda: _object_list(store, inputs),
    }
    try:
        return await operations[inputs.operation]()
    except Error as error:
        raise _failure(error, _shown(inputs)) from None


def _done(result: Any, **told: Any) -> Outcome:
    return Outcome(result=result, extra={"nats": told})


async def _publish(client: Client, inputs: Inputs, payload: bytes, context: Context) -> Outcome:
    headers = dict(inputs.headers)
    if inputs.stream is None:
        await client.publish(_subject(inputs), payload, headers=headers or None)
        await _delivered(client)
        return _done({"subject": inputs.subject, "size": len(payload)})
    headers.setdefault(MSG_ID, context.idempotency_key)
    store = client.jetstream(timeout=ANSWER_SECONDS)
    ack = await store.publish(_subject(inputs), payload, stream=inputs.stream, headers=headers)
    told = {"stream": ack.stream, "sequence": ack.seq, "duplicate": bool(ack.duplicate)}
    return _done({"subject": inputs.subject, "size": len(payload), **told}, **told)


async def _delivered(client: Client) -> None:
    """Wait until the server has all that was published, and has refused what it refuses.

    The driver's ping can overtake a message that still waits to be written; the second one comes after it. A flush that
    is cancelled leaves a ping behind on whose answer the driver chokes, so it goes on without the call.
    """
    import asyncio

    async def flush() -> None:
        for _ in range(2):
            await client.flush(timeout=ANSWER_SECONDS)  # type: ignore[arg-type]

    flushing = asyncio.ensure_future(flush())
    flushing.add_done_callback(lambda task: task.cancelled() or task.exception())
    await asyncio.shield(flushing)


async def _request(client: Client, inputs: Inputs, payload: bytes) -> Outcome:
    """How long to wait is the worker's to limit."""
    forever: Any = None
    answer = await client.request(_subject(inputs), payload, timeout=forever, headers=dict(inputs.headers) or None)
    headers = dict(answer.headers or {})
    data = _decoded(answer.data, inputs.format)
    return _done({"data": data, "headers": headers}, headers=headers)


def _decoded(content: bytes, form: str) -> Any:
    """What came back, by the rule in the head of this file."""
    if form == "bytes":
        return content
    if form == "json" or (form == "auto" and content.lstrip()[:1] in (b"{", b"[")):
        try:
            return msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if form == "json":
                raise Failure("input", f"what came back is not JSON: {error}") from None
    try:
        return content.decode()
    except UnicodeDecodeError:
        if form == "text":
            raise Failure("input", "what came back is not text in UTF-8: leave `format: text` out") from None
        return content


# -- keys -------------------------------------------------------------------------------------------------------------


async def _kv_get(store: JetStreamContext, inputs: Inputs) -> Outcome:
    entry = await (await store.key_value(_bucket(inputs))).get(_key(inputs))
    data = _decoded(entry.value or b"", inputs.format)
    return _done({"key": inputs.key, "data": data, "revision": entry.revision}, revision=entry.revision)


async def _kv_put(store: JetStreamContext, inputs: Inputs, payload: bytes, context: Context) -> Outcome:
    """Written as the message that a key is, since the library's own `put` takes no message id."""
    headers = {MSG_ID: context.idempotency_key}
    if inputs.revision is not None:
        headers[EXPECTED_REVISION] = str(inputs.revision)
    try:
        revision, duplicate = await _write(store, inputs, payload, headers)
    except Conflict as conflict:
        # The server looks at revisions before it looks for duplicates: the write in the way may be this very one.
        last = await store.get_last_msg(f"KV_{inputs.bucket}", f"$KV.{inputs.bucket}.{inputs.key}")
        told = last.headers or {}
        if told.get(MSG_ID) == context.idempotency_key:
            revision, duplicate = last.seq or 0, True
        elif inputs.revision == 0 and told.get("KV-Operation") in ("DEL", "PURGE"):
            # A key that was deleted is not there, but its revisions go on.
            headers[EXPECTED_REVISION] = str(last.seq)
            revision, duplicate = await _write(store, inputs, payload, headers)
        else:
            raise conflict from None
    return _done({"key": inputs.key, "revision": revision, "duplicate": duplicate}, revision=revision)


async def _kv_delete(store: JetStreamContext, inputs: Inputs, context: Context) -> Outcome:
    from nats.js.errors import KeyNotFoundError

    try:
        await (await store.key_value(_bucket(inputs))).get(_key(inputs))
    except KeyNotFoundError:
        return _done({"key": inputs.key, "deleted": False})
    headers = {MSG_ID: context.idempotency_key, "KV-Operation": "DEL"}
    if inputs.revision is not None:
        headers[EXPECTED_REVISION] = str(inputs.revision)
    await _write(store, inputs, b"", headers)
    return _done({"key": inputs.key, "deleted": True})


async def _kv_keys(store: JetStreamContext, inputs: Inputs) -> Outcome:
    from nats.js.errors import NoKeysError

    try:
        keys = await (await store.key_value(_bucket(inputs))).keys()
    except NoKeysError:
        keys = await _keys_one_by_one(store, _bucket(inputs))
    return _done({"keys": sorted(keys), "count": len(keys)})


async def _keys_one_by_one(store: JetStreamContext, name: str) -> list[str]:
    """The keys of a bucket of which the driver says that there are none: it also says so if they were sent to it all at
    once, and it had not come to read them yet."""
    from nats.js.errors import KeyNotFoundError

    bucket, start = await store.key_value(name), f"$KV.{name}."
    about = await store.stream_info(f"KV_{name}", subjects_filter=f"{start}>")
    found = []
    for subject in about.state.subjects or {}:
        with suppress(KeyNotFoundError):  # it was deleted
            await bucket.get(key := subject.removeprefix(start))
            found.append(key)
    return found


class Conflict(Failure):
    """The key has another revision than the author says."""


async def _write(store: JetStreamContext, inputs: Inputs, payload: bytes, headers: dict[str, str]) -> tuple[int, bool]:
    """The revision that was written, and whether that had happened before."""
    from nats.js.errors import APIError, NoStreamResponseError

    try:
        ack = await store.publish(f"$KV.{inputs.bucket}.{inputs.key}", payload, headers=dict(headers))
    except NoStreamResponseError:
        raise Failure("not_found", f"{_shown(inputs)}: there is no such bucket") from None
    except APIError as error:
        if error.err_code not in WRONG_REVISION:
            raise
        message = f"{_shown(inputs)} has another revision than {inputs.revision}: {error.description}"
        raise Conflict("input", message, extra={"nats": {"code": error.err_code, "conflict": True}}) from None
    return ack.seq, bool(ack.duplicate)


# -- objects ----------------------------------------------------------------------------------------------------------


async def _object_get(store: JetStreamContext, inputs: Inputs) -> Outcome:
    from io import BytesIO

    bucket = await store.object_store(_bucket(inputs))
    info = await bucket.get_info(_key(inputs))
    size = info.size or 0
    result = {"key": inputs.key, "size": size, "digest": info.digest, "headers": info.headers or {}}
    if inputs.file is not None:
        with incoming(inputs.file) as part:
            await bucket.get(_key(inputs), writeinto=part)  # type: ignore[arg-type]
        return _done(result | {"file": inputs.file})
    if size > MAX_BYTES:
        raise too_large(_key(inputs), size)
    content = BytesIO()
    await bucket.get(_key(inputs), writeinto=content)
    return _done(result | {"data": _decoded(content.getvalue(), inputs.format)})


async def _object_put(store: JetStreamContext, inputs: Inputs, payload: bytes) -> Outcome:
    bucket = await store.object_store(_bucket(inputs))
    with ExitStack() as files:
        content: Any = payload
        if inputs.file is not None:
            content = files.enter_context(readable(inputs.file)[0].open("rb"))
        info = await bucket.put(_key(inputs), content)
    return _done({"key": inputs.key, "size": info.size, "digest": info.digest})


async def _object_delete(store: JetStreamContext, inputs: Inputs) -> Outcome:
    from nats.js.errors import ObjectNotFoundError

    bucket = await store.object_store(_bucket(inputs))
    try:
        await bucket.delete(_key(inputs))
    except ObjectNotFoundError:
        return _done({"key": inputs.key, "deleted": False})
    return _done({"key": inputs.key, "deleted": True})


async def _object_list(store: JetStreamContext, inputs: Inputs) -> Outcome:
    from nats.js.errors import NotFoundError

    bucket = await store.object_store(_bucket(inputs))
    try:
        infos = [info for info in await bucket.list(ignore_deletes=True) if not info.deleted]
    except NotFoundError:
        infos = []
    found = [{"key": info.name, "size": info.size or 0, "updated": info.mtime, "digest": info.digest} for info in infos]
    return _done({"objects": sorted(found, key=lambda one: str(one["key"])), "count": len(found)})


# -- what goes wrong --------------------------------------------------------------------------------------------------


def _failure(error: Exception, about: str) -> Failure:
    from nats import errors
    from nats.js import errors as stream_errors

    code = getattr(error, "err_code", None)
    text = str(getattr(error, "description", None) or error).removeprefix("nats: ")
    retryable = False
    match error:
        case errors.NoRespondersError():
            kind, told, retryable = "not_found", "nobody answers there", True
        case stream_errors.NoStreamResponseError():
            kind, told = "not_found", "no stream takes it"
        case stream_errors.BucketNotFoundError():
            kind, told = "not_found", "there is no such bucket"
        case stream_errors.ServiceUnavailableError() | stream_errors.ServerError():
            kind, told, retryable = "connect", f"JetStream can't do it now: {text}", True
        case stream_errors.NotFoundError():
            kind, told = "not_found", "it is not there"
        case errors.MaxPayloadError():
            kind, told = "too_large", "the server takes no message as large as this: use `operation: object_put`"
        case errors.TimeoutError():
            kind, told, retryable = "timeout", f"no answer within {ANSWER_SECONDS:g} seconds", True
        case stream_errors.APIError() if code == WRONG_STREAM:
            kind, told = "input", f"it belongs to another stream: {text}"
        case stream_errors.Error():
            kind, told = "input", text
        case _:
            kind, told, retryable = "connect", text, True
    return Failure(kind, f"{about}: {told}", retryable=retryable, extra={"nats": {"code": code, "conflict": False}})


def _unconnected(login: Login, error: Exception) -> Failure:
    from nats.errors import AuthorizationError, InvalidUserCredentialsError

    text = str(error).removeprefix("nats: ") or type(error).__name__
    if isinstance(error, AuthorizationError | InvalidUserCredentialsError) or "authorization violation" in text.lower():
        return Failure("auth", f"NATS at {login.shown()} refuses the login: is the credential right?")
    if isinstance(error, TimeoutError):
        text = f"no answer within {CONNECT_SECONDS:g} seconds"
    return Failure("connect", f"no connection to NATS at {login.shown()}: {text}", retryable=True)
