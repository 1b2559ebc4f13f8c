"""The five operations on a store."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import obstore
from obstore.exceptions import PermissionDeniedError
from obstore.store import ObjectStore

from noetl.model.outcome import Failure
from noetl.tools.files import task_file
from noetl.tools.object_store.content import MAX_BYTES, decode, encode, guess_type, incoming, readable, too_large
from noetl.tools.object_store.run import ObjectInputs

if TYPE_CHECKING:
    from obstore import ObjectMeta

PAGE_LENGTH = 1000
CHUNK_BYTES = 8 * 2**20


class Location(NamedTuple):
    """The folder of a store that the keys of a task are in."""

    store: ObjectStore
    name: str
    """As a URL: `s3://bucket`."""
    folder: str = ""
    """Without a slash at its end."""
    local: bool = False
    """Whether objects are files: they have no metadata, and are listed in no order."""

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


def _described(key: str, meta: ObjectMeta) -> dict[str, Any]:
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
    content = (await response.bytes_async()).to_bytes()
    return result | {"data": decode(content, content_type, key, encoding)}


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
            raise Failure("input", f"`{name}` has a control character: remove it, or a line break too many")
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
        pass  # who may delete need not be allowed to look
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
