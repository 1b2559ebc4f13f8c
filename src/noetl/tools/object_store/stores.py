"""Opens stores, keeps them open for further calls, and performs the five operations on them.

Without a credential the worker's own identity signs, as the driver finds it: variables of the environment, or the role
of the machine. `anonymous: true` in a credential signs nothing.
"""

from __future__ import annotations

import asyncio
import re
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec
import obstore
from obstore.exceptions import BaseError, PermissionDeniedError
from obstore.store import AzureStore, GCSStore, LocalStore, MemoryStore, ObjectStore, S3Store

from noetl.addresses import check_host
from noetl.model.outcome import Failure
from noetl.tools.base import Context
from noetl.tools.files import task_file
from noetl.tools.object_store.content import MAX_BYTES, decode, encode, guess_type, incoming, readable, too_large
from noetl.tools.object_store.run import ObjectInputs, StoreAddress

POOL_SIZE = 64
CONNECT_SECONDS = 5
READ_SECONDS = 300  # how long a server may send nothing
ENDPOINT = r"https?://(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?(/[^\s\\]*)?"
AZURE_KEYS = [{"account_key"}, {"sas_key"}, {"token"}, {"client_id", "client_secret", "tenant_id"}]
PAGE_LENGTH = 1000
CHUNK_BYTES = 8 * 2**20

Fields = dict[str, Any] | None  # the fields of a credential; None without `auth`
Settings = tuple[dict[str, Any], dict[str, Any] | None]  # of a store, and the credential that it gets as a whole
OwnInputs = dict[str, str | None]


class Location(NamedTuple):
    """The folder of a store that the keys of a task are in."""

    store: ObjectStore
    name: str
    folder: str = ""
    local: bool = False  # whether objects are files: they have no metadata, and are listed in no order

    def path(self, key: str) -> str:
        """The path of a key; Failure for keys that the driver would normalize, and so use another object."""
        path = f"{self.folder}/{key}" if self.folder else key
        if any(part in ("", ".", "..") for part in path.split("/")):
            reason = "a `/` at its beginning or end, or an empty, `.` or `..` part"
            raise Failure("input", f"{key!r} cannot be used as a key here: it has {reason}")
        if self.local:
            task_file(f"{self.name.removeprefix('file://')}/{path}", "key")
        return path


async def list_objects(inputs: ObjectInputs, location: Location) -> dict[str, Any]:
    """The objects whose key starts with the prefix. The driver itself only lists whole folders."""
    objects: list[dict[str, Any]] = []
    within = f"{location.folder}/" if location.folder else ""
    start = within + (inputs.prefix or "")
    folder, _, name = start.rpartition("/")
    # An offset is exclusive: with one character less, an object whose key is the prefix itself is not missed.
    offset = start[:-1] if len(name) > 1 and not location.local else None
    async for page in obstore.list(location.store, folder or None, offset=offset, chunk_size=PAGE_LENGTH):
        for meta in page:
            path = meta["path"]
            matches = path.startswith(start)
            truncated = matches and len(objects) == inputs.limit
            if truncated or (not matches and not location.local and path > start):
                return {"objects": objects, "count": len(objects), "truncated": truncated}
            if matches:
                objects.append(_described(path.removeprefix(within), meta))
    return {"objects": objects, "count": len(objects), "truncated": False}


def _described(key: str, meta: Mapping[str, Any]) -> dict[str, Any]:
    updated = meta["last_modified"].isoformat().replace("+00:00", "Z")
    return {"key": key, "size": meta["size"], "updated": updated, "etag": meta["e_tag"]}


async def get_object(inputs: ObjectInputs, location: Location) -> dict[str, Any]:
    key = inputs.key or ""
    response = await obstore.get_async(location.store, location.path(key))
    attributes = {str(name): value for name, value in response.attributes.items()}
    content_type = attributes.pop("Content-Type", "") or guess_type(key)
    encoding = attributes.pop("Content-Encoding", None)
    result = _described(key, response.meta) | {"content_type": content_type or None, "metadata": attributes}
    if inputs.file is not None:
        with incoming(inputs.file) as part:
            async for chunk in response.stream(min_chunk_size=CHUNK_BYTES):
                await asyncio.to_thread(part.write, chunk)
        return result | {"file": inputs.file}
    if result["size"] > MAX_BYTES:
        raise too_large(key, result["size"])
    return result | {"data": decode((await response.bytes_async()).to_bytes(), content_type, key, encoding)}


async def put_object(inputs: ObjectInputs, location: Location) -> dict[str, Any]:
    key = inputs.key or ""
    if location.local and (inputs.content_type or inputs.metadata):
        raise Failure("input", "files have no `content_type` and no `metadata`: leave them out")
    content: bytes | Path
    if inputs.file is not None:
        content, size = readable(inputs.file)
        own_type = "application/octet-stream"
    else:
        content, own_type = encode(inputs.data)
        size = len(content)
    content_type = inputs.content_type or guess_type(key) or own_type
    headers = {"content_type": content_type} | {f"metadata.{name}": value for name, value in inputs.metadata.items()}
    for name, value in headers.items():
        if re.search(r"[\x00-\x1f\x7f]", value):
            raise Failure("input", f"`{name}` has a control character, perhaps a line break: remove it")
    attributes = None if location.local else {"Content-Type": content_type, **inputs.metadata}
    stored = await obstore.put_async(location.store, location.path(key), content, attributes=attributes)
    return {"key": key, "size": size, "content_type": content_type, "etag": stored["e_tag"]}


async def delete_object(inputs: ObjectInputs, location: Location) -> dict[str, Any]:
    """Looks for the object first: S3 gives the same response whether there was one or not."""
    path = location.path(inputs.key or "")
    try:
        await obstore.head_async(location.store, path)
    except FileNotFoundError:
        return {"key": inputs.key, "deleted": False}
    except PermissionDeniedError:
        pass  # a credential may allow to delete, but not to read
    await obstore.delete_async(location.store, path)
    return {"key": inputs.key, "deleted": True}


async def copy_object(inputs: ObjectInputs, location: Location, target: Location, target_key: str) -> dict[str, Any]:
    """Within one store the server copies; between stores the content streams through the worker. So it does between
    files: the driver would only link them, and a later write to one would change the other."""
    path, target_path = location.path(inputs.key or ""), target.path(target_key)
    if location.store is target.store and not location.local:
        await obstore.copy_async(location.store, path, target_path)
    else:
        response = await obstore.get_async(location.store, path)
        attributes = None if target.local else response.attributes
        stream = response.stream(min_chunk_size=CHUNK_BYTES)
        await obstore.put_async(target.store, target_path, stream, attributes=attributes)
    return {"key": inputs.key, "destination": f"{target.name}/{target_path}"}


OPERATIONS = {"list": list_objects, "get": get_object, "put": put_object, "delete": delete_object}


async def open_store(
    address: StoreAddress, fields: Fields, own: OwnInputs, context: Context, *, create: bool
) -> Location:
    """The store with an address. A missing folder of the worker is created, or a Failure."""
    if address.scheme == "file":
        return _open_folder(Path(task_file(address.folder, "url")), create)
    if address.scheme == "memory":
        store = _pooled(["memory", address.bucket], MemoryStore)
    else:
        store = await _cloud_store(address, fields, own, context)
    return Location(store, f"{address.scheme}://{address.bucket}", address.folder)


def _open_folder(folder: Path, create: bool) -> Location:
    if not create and not folder.is_dir():
        raise Failure("not_found", f"this worker has no folder {str(folder)!r}")
    return Location(LocalStore(folder, mkdir=create), f"file://{folder}", local=True)


async def _cloud_store(address: StoreAddress, fields: Fields, own: OwnInputs, context: Context) -> ObjectStore:
    store_class, names, settings_of = STORES[address.scheme]
    values = (fields or {}) | {name: value for name, value in own.items() if value}
    texts = {name: str(values[name]) for name in names if values.get(name) not in (None, "")}
    if "endpoint" in texts:
        texts["endpoint"] = await _checked_endpoint(texts["endpoint"])
    for name in ("region", "account_name"):  # they become a part of the host name
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", texts.get(name, "x")):
            raise Failure("input", f"`{name}` must contain only letters, digits and hyphens")
    anonymous = fields is not None and fields.get("anonymous") is True
    config, credential = await settings_of(fields, texts, anonymous)
    # The worker limits how long a whole request takes.
    client_options = {
        "allow_http": texts.get("endpoint", "").startswith("http:"),
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "read_timeout": timedelta(seconds=READ_SECONDS),
        "timeout": timedelta(days=30),
    }
    new_store = partial(
        store_class,
        address.bucket,
        config=config,
        client_options=client_options,
        retry_config={"max_retries": 0, "retry_timeout": timedelta(0)},  # `spec.retry` repeats the call
        credential_provider=None if credential is None else lambda: credential,
    )
    try:
        return _pooled([store_class.__name__, address.bucket, config, credential], new_store)
    except BaseError:
        if "service_account_key" not in config:
            raise
        raise Failure("auth", "the key of the service account is invalid: check `private_key`") from None


async def _s3_settings(fields: Fields, texts: dict[str, str], anonymous: bool) -> Settings:
    keys = texts.keys() & {"access_key_id", "secret_access_key"}
    if len(keys) == 1 or (fields is not None and not keys and not anonymous):
        expected = "`access_key_id` and `secret_access_key`, or `anonymous: true`"
        raise Failure("auth", f"a credential for S3 must have {expected}")
    config: dict[str, Any] = {"skip_signature": anonymous}
    if "region" in texts:
        config["region"] = texts["region"]
    if "endpoint" in texts:
        # A variable of the environment would set the second one, which takes precedence.
        config |= {"endpoint": texts["endpoint"], "aws_endpoint_url_s3": texts["endpoint"]}
    if not keys:
        return config, None
    # As a whole: the driver would mix single settings with those of the environment.
    session = {"token": texts.get("session_token"), "expires_at": None}
    return config, {name: texts[name] for name in keys} | session


async def _gcs_settings(fields: Fields, texts: dict[str, str], anonymous: bool) -> Settings:
    config: dict[str, Any] = {}
    credential = None
    if "endpoint" in texts:
        config["base_url"] = texts["endpoint"]
    if anonymous:
        config["skip_signature"] = True
        # Or else the driver signs requests that write, with the role of the machine.
        credential = {"token": "", "expires_at": None}
    elif "token" in texts:
        config["bearer_token"] = texts["token"]
    elif fields is not None:
        key = fields.get("service_account")
        if isinstance(key, str):
            try:
                key = msgspec.json.decode(key)
            except msgspec.DecodeError:
                raise Failure("auth", "`service_account` of the credential is not the text of a key file") from None
        if not isinstance(key, dict):
            key = {name: value for name, value in fields.items() if name != "kind"}
        if not {"client_email", "private_key"} <= key.keys():
            expected = "`service_account` (a key file), `client_email` and `private_key`, `token`, or `anonymous: true`"
            raise Failure("auth", f"a credential for Google Cloud Storage must have {expected}")
        for name in ("token_uri", "gcs_base_url"):  # the driver sends requests to them
            if key.get(name) is not None:
                await _checked_endpoint(str(key[name]), name)
        config["service_account_key"] = msgspec.json.encode({"private_key_id": ""} | key).decode()
    return config, credential


async def _azure_settings(fields: Fields, texts: dict[str, str], anonymous: bool) -> Settings:
    if fields is not None and not anonymous and not any(keys <= texts.keys() for keys in AZURE_KEYS):
        expected = "`account_key`, `sas_key`, `token`, or `client_id`, `client_secret` and `tenant_id`"
        raise Failure("auth", f"a credential for Azure must have `account_name` and one of {expected}")
    return {**texts, "skip_signature": anonymous}, None


STORES: dict[str, tuple[Any, tuple[str, ...], Callable[[Fields, dict[str, str], bool], Awaitable[Settings]]]] = {
    "s3": (S3Store, ("access_key_id", "secret_access_key", "session_token", "region", "endpoint"), _s3_settings),
    "gs": (GCSStore, ("endpoint", "token"), _gcs_settings),
    "az": (AzureStore, ("account_name", "endpoint", *sorted(set().union(*AZURE_KEYS))), _azure_settings),
}
"""By scheme: the class, the fields of a credential that are text, and the settings that they become."""


async def _checked_endpoint(endpoint: str, field: str = "endpoint") -> str:
    """The address of a store, without a trailing slash; Failure if requests to it are not allowed. The driver parses it
    too, by rules of its own: only URLs that both parse alike are accepted."""
    address = re.fullmatch(ENDPOINT, endpoint)
    if address is None or int(address["port"] or 1) not in range(1, 65_536):
        raise Failure("input", f"`{field}` must start with http:// or https://")
    await check_host(address["host"].strip("[]"))
    return endpoint.rstrip("/")


_STORES: WeakKeyDictionary[AbstractEventLoop, dict[bytes, ObjectStore]] = WeakKeyDictionary()


def _pooled(identity: Any, open_store: Callable[[], ObjectStore]) -> ObjectStore:
    """The open store with that identity, all that it was opened with. Of too many, the least recently used is
    dropped."""
    stores = _STORES.setdefault(asyncio.get_running_loop(), {})
    name = sha256(msgspec.json.encode(identity, order="sorted")).digest()
    stores[name] = stores.pop(name) if name in stores else open_store()
    if len(stores) > POOL_SIZE:
        del stores[next(iter(stores))]
    return stores[name]


def drop_stores() -> None:
    _STORES.pop(asyncio.get_running_loop(), None)
