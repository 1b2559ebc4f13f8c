"""kind: gcs. Objects in Google Cloud Storage.

Fields of a credential: those of a service account's key file (`client_email`, `private_key`, ...), or the text of that
file as `service_account`; or `token`, an access token; or `anonymous: true` for a public bucket; and `endpoint` where
the task names none. Without `auth` the worker's own identity is used, as Google's libraries find it.

Google's client blocks, so each operation has a thread. A call that is cancelled leaves its thread: it ends at the next
piece of content, or when the server has been silent for too long, and nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, TypeVar
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Meta, Struct

from noetl.model.kind import Kind
from noetl.model.outcome import Failure, Outcome
from noetl.tools.base import Context, missing_driver
from noetl.tools.fields import Bucket
from noetl.tools.objects import (
    CHUNK_BYTES,
    CONNECT_SECONDS,
    MAX_BYTES,
    MESSAGE_LENGTH,
    POOLED,
    Asked,
    answered,
    check,
    check_bucket,
    check_endpoint,
    decoded,
    incoming,
    key_of,
    moment,
    text_fields,
    too_large,
    upload,
)

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from threading import Event

    from google.cloud.storage import Blob, Client  # type: ignore[import-untyped]

T = TypeVar("T")

SILENCE_SECONDS = 60
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
LISTED = "items(name,size,updated,etag),nextPageToken"
MAX_BACKOFF_SECONDS = 2.0
ACCOUNT_ADDRESSES = ("token_uri", "gcs_base_url")
"""Fields of a service account's key that a driver sends requests to."""


class Inputs(Asked, forbid_unknown_fields=True, kw_only=True):
    bucket: Bucket
    endpoint: Annotated[str | None, Meta(description="Address of the store, if it is not Google's own")] = None


KIND = Kind(
    name="gcs",
    summary="Lists, gets, puts, deletes and copies objects in Google Cloud Storage",
    inputs=Inputs,
    timeout=3600,
    extra="gcs",
    outcome="gcs",
)


async def run(inputs: Inputs, context: Context) -> Outcome:
    """One operation on a bucket; tried again where the server was not there."""
    import asyncio

    try:
        check(inputs)
        check_bucket(inputs.bucket)
        fields = None if inputs.auth is None else await context.credential(inputs.auth)
        client = _pooled(await _settings(inputs, fields))
        for attempt in range(context.retries + 1):
            answer = await _in_thread(lambda stop: _attempt(client, inputs, stop, context))
            if answer.error is None or not answer.error.retryable or attempt == context.retries:
                return answer
            await asyncio.sleep(min(0.1 * 2**attempt, MAX_BACKOFF_SECONDS))
        raise AssertionError("unreachable")
    except Failure as failure:
        return failure.outcome


# -- credentials and clients ------------------------------------------------------------------------------------------


def service_account(fields: dict[str, Any]) -> str:
    """The key of a service account as JSON, from the fields of a credential."""
    given = fields.get("service_account")
    if isinstance(given, str):
        try:
            given = msgspec.json.decode(given)
        except msgspec.DecodeError:
            raise Failure("auth", "`service_account` of the credential is not the text of a key file") from None
    known = given if isinstance(given, dict) else {name: value for name, value in fields.items() if name != "kind"}
    if not {"client_email", "private_key"} <= known.keys():
        wanted = "`service_account` (a key file), `client_email` and `private_key`, `token`, or `anonymous: true`"
        raise Failure("auth", f"a credential for Google Cloud Storage must have {wanted}")
    return msgspec.json.encode({"token_uri": "https://oauth2.googleapis.com/token"} | known).decode()


async def checked_account(fields: dict[str, Any]) -> str:
    """The same, if anything may be sent to the addresses in it."""
    account = service_account(fields)
    known = msgspec.json.decode(account)
    for name in ACCOUNT_ADDRESSES:
        if known.get(name) is not None:
            await check_endpoint(str(known[name]), name)
    return account


class Settings(Struct, frozen=True):
    """All that makes a client."""

    endpoint: str | None
    anonymous: bool = False
    token: str | None = None
    account: str | None = None
    """The key of a service account, as JSON."""


async def _settings(inputs: Inputs, fields: dict[str, Any] | None) -> Settings:
    given = text_fields(fields or {}, "endpoint", "token")
    endpoint = inputs.endpoint or given.get("endpoint")
    endpoint = None if endpoint is None else await check_endpoint(endpoint)
    if fields is None:
        return Settings(endpoint)
    if fields.get("anonymous") is True:
        return Settings(endpoint, anonymous=True)
    if "token" in given:
        return Settings(endpoint, token=given["token"])
    return Settings(endpoint, account=await checked_account(fields))


class Pooled:
    """A client that is made when a thread first asks for it: making one reads files, and takes a second to import."""

    def __init__(self, settings: Settings) -> None:
        from threading import Lock

        self.settings = settings
        self.lock = Lock()
        self.made: Client | None = None

    def client(self) -> Client:
        with self.lock:
            if self.made is None:
                self.made = _new_client(self.settings)
            return self.made

    def close(self) -> None:
        if self.made is not None:
            self.made.close()


_CLIENTS: WeakKeyDictionary[AbstractEventLoop, dict[Settings, Pooled]] = WeakKeyDictionary()


def _pooled(settings: Settings) -> Pooled:
    import asyncio

    clients = _CLIENTS.setdefault(asyncio.get_running_loop(), {})
    pooled = clients.pop(settings, None) or Pooled(settings)
    clients[settings] = pooled
    while len(clients) > POOLED:
        clients.pop(next(iter(clients)))
    return pooled


async def close() -> None:
    """Close the connections of the running event loop."""
    import asyncio

    for pooled in _CLIENTS.pop(asyncio.get_running_loop(), {}).values():
        pooled.close()


def _new_client(settings: Settings) -> Client:
    from google.cloud.storage import Client

    options = {"api_endpoint": settings.endpoint} if settings.endpoint else None
    return Client(project=None, credentials=_credentials(settings), client_options=options)


def _credentials(settings: Settings) -> Any:
    import google.auth
    from google.auth import credentials
    from google.oauth2 import credentials as tokens
    from google.oauth2 import service_account as accounts

    untyped: Any = (credentials.AnonymousCredentials, tokens.Credentials, accounts.Credentials)
    nobody, token, account = untyped
    if settings.anonymous:
        return nobody()
    if settings.token is not None:
        return token(settings.token)
    if settings.account is None:
        return google.auth.default(scopes=[SCOPE])[0]
    try:
        return account.from_service_account_info(msgspec.json.decode(settings.account), scopes=[SCOPE])
    except (ValueError, TypeError):
        raise Failure("auth", "the key of the service account can't be used: is `private_key` whole?") from None


# -- threads ----------------------------------------------------------------------------------------------------------


async def _in_thread(work: Callable[[Event], T]) -> T:
    """The result of work that blocks. The thread is a daemon, so that neither the loop nor the process waits for it."""
    import asyncio
    from threading import Event, Thread

    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    stop = Event()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)  # type: ignore[arg-type]
        else:
            future.set_exception(error)

    def body() -> None:
        result, error = None, None
        try:
            result = work(stop)
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed: nobody wants to know
            loop.call_soon_threadsafe(settle, result, error)

    Thread(target=body, name="gcs", daemon=True).start()
    try:
        return await future
    finally:
        stop.set()


class Stopped(Exception):
    """Nobody waits for this content any more."""


class Tap:
    """A file that content flows through piece by piece: it ends with the call, and at the limit."""

    def __init__(self, file: BinaryIO, stop: Event, key: str, limit: int | None = None) -> None:
        self.file, self.stop, self.key, self.limit = file, stop, key, limit

    def write(self, piece: bytes) -> int:
        self._check()
        if self.limit is not None and self.file.tell() + len(piece) > self.limit:
            raise too_large(self.key, self.file.tell() + len(piece))
        return self.file.write(piece)

    def read(self, size: int = -1) -> bytes:
        self._check()
        return self.file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()

    def _check(self) -> None:
        if self.stop.is_set():
            raise Stopped


# -- operations, each in its thread -----------------------------------------------------------------------------------

LIMITS: dict[str, Any] = {"timeout": (CONNECT_SECONDS, SILENCE_SECONDS), "retry": None}
"""What every request gets: how often to try is not the library's to decide."""


def _attempt(pooled: Pooled, inputs: Inputs, stop: Event, context: Context) -> Outcome:
    """One try of an operation, as an outcome."""
    try:
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError
        from google.cloud.storage.exceptions import DataCorruption, InvalidResponse  # type: ignore[import-untyped]
        from requests.exceptions import RequestException
    except ImportError:
        return missing_driver(KIND.name, "gcs")
    try:
        return Outcome(result=_operate(pooled.client(), inputs, stop), extra=answered(KIND.name))
    except Failure as failure:
        return failure.outcome
    except (GoogleAPIError, GoogleAuthError, InvalidResponse, DataCorruption, RequestException) as error:
        return _explained(error, inputs, context).outcome


def _operate(client: Client, inputs: Inputs, stop: Event) -> dict[str, Any]:
    match inputs.operation:
        case "list":
            return _list(client, inputs)
        case "get":
            return _get(client, inputs, stop)
        case "put":
            return _put(client, inputs, stop)
        case "delete":
            return _delete(client, inputs)
        case _:
            return _copy(client, inputs, stop)


def _blob(client: Client, inputs: Inputs) -> Blob:
    return client.bucket(inputs.bucket).blob(key_of(inputs), chunk_size=CHUNK_BYTES)


def _list(client: Client, inputs: Inputs) -> dict[str, Any]:
    limit = inputs.limit
    most = None if limit is None else limit + 1
    found: list[dict[str, Any]] = []
    for blob in client.list_blobs(inputs.bucket, prefix=inputs.prefix, max_results=most, fields=LISTED, **LIMITS):
        if len(found) == limit:
            return {"objects": found, "count": len(found), "truncated": True}
        found.append({"key": blob.name, "size": blob.size, "updated": moment(blob.updated), "etag": blob.etag})
    return {"objects": found, "count": len(found), "truncated": False}


def _get(client: Client, inputs: Inputs, stop: Event) -> dict[str, Any]:
    blob = _blob(client, inputs)
    blob.reload(**LIMITS)
    key = key_of(inputs)
    result = {
        "key": key,
        "size": blob.size,
        "content_type": blob.content_type,
        "etag": blob.etag,
        "updated": moment(blob.updated),
        "metadata": blob.metadata or {},
    }
    if inputs.file is not None:
        with incoming(inputs.file) as part:
            blob.download_to_file(Tap(part, stop, key), **LIMITS)
        return result | {"file": inputs.file}
    if blob.size > MAX_BYTES:
        raise too_large(key, blob.size)
    content = BytesIO()
    blob.download_to_file(Tap(content, stop, key, MAX_BYTES), **LIMITS)
    return result | {"data": decoded(content.getvalue(), blob.content_type or "", key)}


def _put(client: Client, inputs: Inputs, stop: Event) -> dict[str, Any]:
    key = key_of(inputs)
    content, size, content_type = upload(inputs)
    blob = _blob(client, inputs)
    if inputs.metadata:
        blob.metadata = inputs.metadata
    with BytesIO(content) if isinstance(content, bytes) else content.open("rb") as file:
        blob.upload_from_file(Tap(file, stop, key), size=size, content_type=content_type, **LIMITS)
    return {"key": key, "size": size, "content_type": content_type, "etag": blob.etag}


def _delete(client: Client, inputs: Inputs) -> dict[str, Any]:
    from google.api_core.exceptions import NotFound

    try:
        _blob(client, inputs).delete(**LIMITS)
    except NotFound:
        return {"key": inputs.key, "deleted": False}
    return {"key": inputs.key, "deleted": True}


def _copy(client: Client, inputs: Inputs, stop: Event) -> dict[str, Any]:
    """Google copies, a large object in several steps."""
    bucket, key = _destination(inputs)
    target = client.bucket(bucket).blob(key)
    token, _, _ = target.rewrite(_blob(client, inputs), **LIMITS)
    while token is not None and not stop.is_set():
        token, _, _ = target.rewrite(_blob(client, inputs), token=token, **LIMITS)
    return {"key": inputs.key, "destination": f"gs://{bucket}/{key}"}


def _destination(inputs: Inputs) -> tuple[str, str]:
    """Bucket and key that a copy goes to."""
    assert inputs.destination is not None
    scheme, mark, rest = inputs.destination.partition("://")
    if not mark:
        return inputs.bucket, inputs.destination
    bucket, _, key = rest.partition("/")
    if scheme != "gs" or not key:
        raise Failure("input", "`destination` must be a key, or gs://BUCKET/KEY; `kind: object` copies to other stores")
    return check_bucket(bucket), key


# -- what goes wrong --------------------------------------------------------------------------------------------------


def _explained(error: Exception, inputs: Inputs, context: Context) -> Failure:
    from google.auth.exceptions import GoogleAuthError, TransportError

    place = f"gs://{inputs.bucket}" + (f"/{inputs.key}" if inputs.key else "")
    answer = getattr(error, "response", None)
    status = int(getattr(error, "code", None) or getattr(answer, "status_code", None) or 0) or None
    extra = answered(KIND.name, status, _reason(error))
    told = f"{place}: {_short(error, context)}"
    if status == 404:
        return Failure("not_found", f"{place} does not exist", extra=extra)
    if status in (401, 403) or (isinstance(error, GoogleAuthError) and not isinstance(error, TransportError)):
        return Failure("auth", f"{told}: is `auth` right, and may it do this?", extra=extra)
    if status is not None and status < 500 and status not in (408, 429):
        return Failure("input", told, extra=extra)
    return Failure("connect", told, retryable=True, extra=extra)


def _reason(error: Exception) -> str | None:
    """The code of the error in the store's own words, such as `notFound`."""
    errors = getattr(error, "errors", None)
    first = errors[0] if isinstance(errors, list | tuple) and errors else None
    return str(first["reason"]) if isinstance(first, dict) and "reason" in first else None


def _short(error: Exception, context: Context) -> str:
    """The library's message on one line, without the queries of addresses."""
    import re

    text = str(getattr(error, "message", None) or error) or type(error).__name__
    return re.sub(r"\?[^\s:)]*", "?...", " ".join(context.redact(text).split()))[:MESSAGE_LENGTH]
