"""What the kinds that keep objects share: gcs, s3 and object.

An operation takes only the inputs that mean something to it; any other is refused rather than ignored. Content goes in
and out by three rules. Text is stored as it is, bytes too, every other value as JSON. The media type is the author's,
else the one that the ending of the key stands for, else that of the value. What comes out is read by the media type:
JSON as a value, text as text, anything else as bytes, which the worker stores by reference.

A file never passes through memory as a whole. `get` writes beside the file it is asked for and renames at the end, so
a file of that name is always complete.

The second half works through obstore: s3 and object differ only in how they find their store.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, NamedTuple
from weakref import WeakKeyDictionary

import msgspec
from msgspec import UNSET, Meta, Struct

from noetl.model.outcome import Outcome
from noetl.timestamps import rfc3339
from noetl.tools.base import Context, Failure
from noetl.tools.fields import Auth

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from datetime import datetime
    from pathlib import Path

    from obstore import ObjectMeta
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

MAX_KEY_BYTES = 1_024
"""What S3 and GCS allow."""
MAX_BYTES = 50 * 2**20
"""What `get` brings into memory at most."""
LIMIT = 1000
"""Objects listed when the author sets no limit."""
MESSAGE_LENGTH = 400
POOLED = 64
"""Stores kept ready for an event loop."""
CONNECT_SECONDS = 5
READ_SECONDS = 300
"""How long a server may be silent."""
RETRY_SECONDS = 180
CHUNK_BYTES = 8 * 2**20

USES: dict[str, frozenset[str]] = {
    "list": frozenset(["prefix", "limit"]),
    "get": frozenset(["key", "file"]),
    "put": frozenset(["key", "data", "file", "content_type", "metadata"]),
    "delete": frozenset(["key"]),
    "copy": frozenset(["key", "destination", "destination_auth"]),
}
UNGIVEN: dict[str, Any] = {
    "key": None,
    "prefix": None,
    "limit": LIMIT,
    "data": UNSET,
    "file": None,
    "destination": None,
    "destination_auth": None,
    "content_type": None,
    "metadata": {},
}
"""Inputs that belong to some operations only, and what each is when it was not given."""
MORE_TYPES = {
    ".avro": "application/avro",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
    ".parquet": "application/vnd.apache.parquet",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
COMPRESSED = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}
UNTOLD = frozenset(["", "application/octet-stream", "binary/octet-stream"])
"""Media types that say nothing about the content."""
TEXT_TYPE = r"text/.+|.+\+xml|application/((x-)?(javascript|ndjson|yaml)|graphql|jsonl|sql|toml|xml)"
CHARSET = r"(?i)charset\s*=\s*[\"']?([^\s;\"']+)"
BUCKET = r"[A-Za-z0-9][A-Za-z0-9._:-]{1,221}"
ENDPOINT = r"https?://(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?(/[^\s\\]*)?"
CONTROL = r"[\x00-\x1f\x7f]"
NO_IDENTITY = (
    r"(?i)credential|token request|Missing *(Account|\w*AccessKey)|Invalid Access Key|Account must be specified"
    r"|/latest/(api/token|meta-data)|/computeMetadata/|/metadata/identity"
)
"""How the driver says that it has nothing to sign with; the paths are those where a machine is asked for its role."""


class Asked(Struct, forbid_unknown_fields=True, kw_only=True):
    """The inputs that all three kinds have. Each says beside them where its objects are."""

    operation: Annotated[Literal["list", "get", "put", "delete", "copy"], Meta(description="What to do")]
    key: Annotated[str | None, Meta(description="Object to get, put or delete, or to copy from")] = None
    prefix: Annotated[str | None, Meta(description="Lists only the objects whose key begins so")] = None
    limit: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="Lists at most this many objects")] = LIMIT
    data: Annotated[
        Any,
        Meta(description="What to put: text as it is, a result reference as its bytes, any other value as JSON"),
    ] = UNSET
    file: Annotated[str | None, Meta(description="File on the worker that `put` reads, or that `get` writes")] = None
    destination: Annotated[
        str | None, Meta(description="Where to copy to: a key in the same bucket, or a whole URL")
    ] = None
    content_type: Annotated[
        str | None, Meta(description="Media type to store with the object; guessed from the key if not given")
    ] = None
    metadata: Annotated[dict[str, str], Meta(description="The author's own attributes to store with the object")] = {}
    auth: Auth = None


# -- inputs -----------------------------------------------------------------------------------------------------------


def check(asked: Asked) -> None:
    """Refuse inputs that the operation lacks, or would ignore."""
    operation = asked.operation
    for name, ungiven in UNGIVEN.items():
        if name not in USES[operation] and getattr(asked, name, ungiven) != ungiven:
            raise Failure("input", f"operation {operation} takes no `{name}`: leave it out")
    if operation != "list" and not asked.key:
        raise Failure("input", f"operation {operation} needs a `key`")
    if operation == "copy" and not asked.destination:
        raise Failure("input", "operation copy needs a `destination`")
    if operation == "put" and (asked.data is UNSET) == (asked.file is None):
        raise Failure("input", "operation put needs either `data` or `file`")


def key_of(asked: Asked) -> str:
    """The key, where the operation has one."""
    assert asked.key is not None
    if len(asked.key.encode("utf-8", "replace")) > MAX_KEY_BYTES:
        raise Failure("input", f"the key of an object has at most {MAX_KEY_BYTES:,} bytes")
    return asked.key


def check_bucket(bucket: str) -> str:
    """The name, if it can be one: it becomes a part of addresses."""
    if not re.fullmatch(BUCKET, bucket):
        raise Failure("input", f"{bucket!r} can't be the name of a bucket")
    return bucket


async def check_endpoint(endpoint: str, what: str = "endpoint") -> str:
    """The address of a store, without a slash at its end, if anything may be sent there.

    The driver reads it too, by rules of its own: so only what all read alike is taken.
    """
    from noetl.tools.addresses import check_host

    found = re.fullmatch(ENDPOINT, endpoint)
    if found is None or int(found["port"] or 1) not in range(1, 65_536):
        raise Failure("input", f"`{what}` must start with http:// or https://")
    await check_host(found["host"].strip("[]"))
    return endpoint.rstrip("/")


def check_label(text: str, what: str) -> str:
    """A region or an account, if it can be one: it becomes a part of the host's name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", text):
        raise Failure("input", f"`{what}` must contain only letters, digits and hyphens")
    return text


def text_fields(fields: dict[str, Any], *names: str) -> dict[str, str]:
    """Those fields of a credential that are there, as text."""
    return {name: str(fields[name]) for name in names if fields.get(name) not in (None, "")}


# -- content ----------------------------------------------------------------------------------------------------------


class Upload(NamedTuple):
    """What `put` stores: bytes, or the path of a file."""

    content: bytes | Path
    size: int
    content_type: str


def upload(asked: Asked) -> Upload:
    """What an author wants stored, and as what."""
    if asked.file is not None:
        path, size = readable(asked.file)
        return Upload(path, size, _stored_type(asked, "application/octet-stream"))
    content, own_type = encoded(asked.data)
    return Upload(content, len(content), _stored_type(asked, own_type))


def encoded(value: Any) -> tuple[bytes, str]:
    """A value as bytes, and their media type."""
    if isinstance(value, bytes):
        return value, "application/octet-stream"
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass"), "text/plain; charset=utf-8"
    try:
        return msgspec.json.encode(value), "application/json"
    except (TypeError, ValueError, RecursionError) as error:
        raise Failure("input", f"`data` can't be written as JSON: {error}") from None


def decoded(content: bytes, content_type: str, key: str, encoding: str | None = None) -> Any:
    """What content says by its media type: a value of JSON, text, or the bytes themselves."""
    media = _media(content_type)
    if media in UNTOLD:
        media = guessed(key)
    if encoding and encoding != "identity":
        return content
    if media in ("application/json", "text/json") or media.endswith("+json"):
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return msgspec.json.decode(content)
    elif not re.fullmatch(TEXT_TYPE, media):
        return content
    found = re.search(CHARSET, content_type)
    try:
        return content.decode(found[1] if found else "utf-8")
    except (LookupError, UnicodeDecodeError):
        return content


def guessed(key: str) -> str:
    """The media type that the ending of a key stands for; empty if it is not known."""
    from mimetypes import MimeTypes
    from posixpath import splitext

    # A fresh table: the one of the module also has what the machine's own files say.
    media, compression = MimeTypes().guess_type(f"/{key}", strict=False)
    if compression is not None:
        return COMPRESSED.get(compression, "application/octet-stream")
    return media or MORE_TYPES.get(splitext(key)[1].lower(), "")


def moment(at: datetime | None) -> str | None:
    """A time in RFC 3339."""
    return None if at is None else rfc3339(at, "auto")


def _stored_type(asked: Asked, own_type: str) -> str:
    chosen = asked.content_type or guessed(key_of(asked)) or own_type
    for what, text in (("`content_type`", chosen), *((f"`metadata.{name}`", v) for name, v in asked.metadata.items())):
        if re.search(CONTROL, text):
            raise Failure("input", f"{what} has a control character; is there a line break too many?")
    return chosen


def _media(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


# -- files ------------------------------------------------------------------------------------------------------------


def readable(name: str) -> tuple[Path, int]:
    from pathlib import Path

    from noetl.tools.files import open_task_file

    with open_task_file(name, "file") as file:
        return Path(file.name), os.fstat(file.fileno()).st_size


@contextmanager
def incoming(name: str) -> Iterator[BinaryIO]:
    """A file that gets its name when all of it is there, and is gone if anything went wrong before."""
    from pathlib import Path
    from uuid import uuid4

    from noetl.tools.files import task_file

    path = Path(name)
    if not path.name or "\0" in name:
        raise Failure("input", f"`file`: {name!r} can't be the name of a file")
    task_file(name, "file")
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            yield file
        part.replace(path)
    except OSError as error:
        if error.errno is None:  # not the system's: drivers use this class for errors of their own
            raise
        if isinstance(error, FileNotFoundError):
            raise Failure("not_found", f"`file`: this worker has no folder {str(path.parent)!r}") from None
        raise Failure("input", f"`file`: {name!r} can't be written: {error.strerror}") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def too_large(key: str, size: int) -> Failure:
    told = f"{key!r} has {size:,} bytes, more than the {MAX_BYTES >> 20} MiB that a result may have"
    return Failure("too_large", f"{told}: give `file` to write it to a file on the worker", size=size)


# -- through obstore --------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """A store, and where in it the keys of a task begin."""

    store: ObjectStore
    name: str
    """How people call it: `s3://bucket`."""
    folder: str = ""
    """What stands before every key, without a slash at its end."""
    local: bool = False
    """Whether objects are files: they have no attributes, and come in no order."""

    def path(self, key: str) -> str:
        """The path of a key; the driver would clean some keys up silently, and so work on another object."""
        whole = f"{self.folder}/{key}" if self.folder else key
        if any(part in ("", ".", "..") for part in whole.split("/")):
            what = "a `/` at its beginning or end, or an empty, `.` or `..` part"
            raise Failure("input", f"{key!r} can't be used as a key here: it has {what}")
        if self.local:
            from noetl.tools.files import task_file

            task_file(f"{self.name.removeprefix('file://')}/{whole}", "key")
        return whole

    def key(self, path: str) -> str:
        return path.removeprefix(f"{self.folder}/") if self.folder else path


async def perform(asked: Asked, place: Place, target: Callable[[], Awaitable[tuple[Place, str]]]) -> Any:
    """One operation. `target` tells where a copy goes, as a place and a key."""
    match asked.operation:
        case "list":
            return await _list(asked, place)
        case "get":
            return await _get(key_of(asked), asked.file, place)
        case "put":
            return await _put(asked, place)
        case "delete":
            return await _delete(key_of(asked), place)
        case _:
            return await _copy(key_of(asked), place, *await target())


async def _list(asked: Asked, place: Place) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    async for meta in _matching(place, asked.prefix or ""):
        if asked.limit is not None and len(found) == asked.limit:
            return {"objects": found, "count": len(found), "truncated": True}
        found.append(
            {
                "key": place.key(meta["path"]),
                "size": meta["size"],
                "updated": moment(meta["last_modified"]),
                "etag": meta["e_tag"],
            }
        )
    return {"objects": found, "count": len(found), "truncated": False}


async def _matching(place: Place, prefix: str) -> AsyncIterator[ObjectMeta]:
    """The objects whose key begins so. The driver itself only lists whole folders."""
    import obstore

    whole = f"{place.folder}/{prefix}" if place.folder else prefix
    folder, _, begin = whole.rpartition("/")
    # An offset is exclusive: a character less, and an object whose key is just the prefix is not missed.
    offset = whole[:-1] if len(begin) > 1 and not place.local else None
    async for page in obstore.list(place.store, folder or None, offset=offset, chunk_size=LIMIT):
        for meta in page:
            if meta["path"].startswith(whole):
                yield meta
            elif not place.local and meta["path"] > whole:
                return


async def _get(key: str, file: str | None, place: Place) -> dict[str, Any]:
    import asyncio

    import obstore

    answer = await obstore.get_async(place.store, place.path(key))
    meta, attributes = answer.meta, {str(name): value for name, value in answer.attributes.items()}
    content_type = attributes.pop("Content-Type", "") or guessed(key)
    encoding = attributes.pop("Content-Encoding", None)
    result = {
        "key": key,
        "size": meta["size"],
        "content_type": content_type or None,
        "etag": meta["e_tag"],
        "updated": moment(meta["last_modified"]),
        "metadata": attributes,
    }
    if file is None:
        if meta["size"] > MAX_BYTES:
            raise too_large(key, meta["size"])
        content = (await answer.bytes_async()).to_bytes()
        return result | {"data": decoded(content, content_type, key, encoding)}
    with incoming(file) as part:
        async for chunk in answer.stream(min_chunk_size=CHUNK_BYTES):
            await asyncio.to_thread(part.write, chunk)
    return result | {"file": file}


async def _put(asked: Asked, place: Place) -> dict[str, Any]:
    import obstore

    key = key_of(asked)
    if place.local and (asked.content_type or asked.metadata):
        raise Failure("input", "files have no `content_type` and no `metadata`: leave them out")
    content, size, content_type = upload(asked)
    attributes = None if place.local else {"Content-Type": content_type, **asked.metadata}
    stored = await obstore.put_async(place.store, place.path(key), content, attributes=attributes)
    return {"key": key, "size": size, "content_type": content_type, "etag": stored["e_tag"]}


async def _delete(key: str, place: Place) -> dict[str, Any]:
    """Whether there was an object is asked first: S3 gives the same answer either way."""
    import obstore
    from obstore.exceptions import PermissionDeniedError

    path = place.path(key)
    try:
        await obstore.head_async(place.store, path)
    except FileNotFoundError:
        return {"key": key, "deleted": False}
    except PermissionDeniedError:
        pass  # whoever may delete need not be allowed to look
    await obstore.delete_async(place.store, path)
    return {"key": key, "deleted": True}


async def _copy(key: str, place: Place, target: Place, target_key: str) -> dict[str, Any]:
    """Within one store the server copies; between stores the content streams through the worker. Files always do: the
    driver would only link them, and what is later written into one would change the other."""
    import obstore

    result = {"key": key, "destination": f"{target.name}/{target_key}"}
    if place.store is target.store and not place.local:
        await obstore.copy_async(place.store, place.path(key), target.path(target_key))
        return result
    answer = await obstore.get_async(place.store, place.path(key))
    attributes = None if target.local else answer.attributes
    stream = answer.stream(min_chunk_size=CHUNK_BYTES)
    await obstore.put_async(target.store, target.path(target_key), stream, attributes=attributes)
    return result


# -- what goes wrong --------------------------------------------------------------------------------------------------


def answered(kind: str, status: int | None = None, code: str | None = None) -> dict[str, Any]:
    """The kind's own field of the outcome: what the store said."""
    return {kind: {"status": status, "code": code}}


async def outcome(kind: str, work: Awaitable[Any], place: str, context: Context) -> Outcome:
    """The outcome of an operation, whatever becomes of it."""
    from obstore.exceptions import BaseError

    try:
        return Outcome(result=await work, extra=answered(kind))
    except (BaseError, OSError, ValueError, NotImplementedError) as error:
        return explained(kind, error, place, context.redact).outcome


def explained(kind: str, error: Exception, place: str, redact: Callable[[str], str] = str) -> Failure:
    """What an error of the driver means."""
    from obstore import exceptions as known

    text = redact(str(error)).partition("\n\nDebug source")[0]
    found = re.search(r"status code: (\d{3})", text)
    status = int(found[1]) if found else None
    code = found[1] if (found := re.search(r"<Code>(\w+)</Code>", text)) else None
    extra = answered(kind, status, code)
    told = f"{place}: {_short(text)}"
    if isinstance(error, FileNotFoundError) or status == 404:
        return Failure("not_found", f"{place} does not exist{f' ({code})' if code else ''}", extra=extra)
    if isinstance(error, known.PermissionDeniedError | known.UnauthenticatedError) or status in (401, 403):
        return Failure("auth", f"{told}: is `auth` right, and may it do this?", extra=extra)
    if not isinstance(error, known.GenericError) or "LocalFileSystem" in text:
        return Failure("input", told, extra=extra)
    if re.search(NO_IDENTITY, text):
        return Failure("auth", f"{told}: give `auth`, or sign the worker in", extra=extra)
    if status is not None and status != 429 and status < 500:
        return Failure("input", told, extra=extra)
    return Failure("connect", told, retryable=True, extra=extra)


def _short(text: str) -> str:
    """The driver's message on one line, without XML, durations, and queries of addresses, which may sign a request."""
    message = re.search(r"<Message>([^<]*)</Message>", text)
    line = re.sub(r" in [\d.]+\w?s - ", " - ", " ".join(text.partition("<?xml")[0].split())).rstrip(" :")
    line = re.sub(r"\?\S*", "?...", line)
    return (f"{line}: {message[1]}" if message else line)[:MESSAGE_LENGTH]


# -- stores -----------------------------------------------------------------------------------------------------------

_STORES: WeakKeyDictionary[AbstractEventLoop, dict[bytes, ObjectStore]] = WeakKeyDictionary()


def pooled(identity: Any, make: Callable[[], ObjectStore]) -> ObjectStore:
    """The store of that identity, which tells all that it is made with. A store holds connections: those of the least
    use are let go. What objects are kept in memory ends with the event loop."""
    import asyncio
    from hashlib import sha256

    stores = _STORES.setdefault(asyncio.get_running_loop(), {})
    name = sha256(msgspec.json.encode(identity, order="sorted")).digest()
    store = stores.pop(name, None) or make()
    stores[name] = store
    while len(stores) > POOLED:
        del stores[next(iter(stores))]
    return store


async def close() -> None:
    """Let the stores of the running event loop go."""
    import asyncio

    _STORES.pop(asyncio.get_running_loop(), None)


def client_options(endpoint: str | None) -> ClientConfig:
    """How requests are sent. How long a whole one takes is the worker's to limit."""
    from datetime import timedelta

    return {
        "allow_http": endpoint is not None and endpoint.startswith("http:"),
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "read_timeout": timedelta(seconds=READ_SECONDS),
        "timeout": timedelta(days=30),
    }


def retry_options(context: Context) -> RetryConfig:
    from datetime import timedelta

    return {"max_retries": context.retries, "retry_timeout": timedelta(seconds=RETRY_SECONDS)}
