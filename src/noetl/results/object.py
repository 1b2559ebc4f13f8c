"""Results in an object store: S3, Google Cloud Storage, Azure, or a folder. One object per content, named by its hash.

The process signs in as itself: with the variables of its vendor (`AWS_ACCESS_KEY_ID`, `GOOGLE_SERVICE_ACCOUNT`,
`AZURE_STORAGE_ACCOUNT_NAME`, ...), or with the role of its machine. Whoever reads needs that as well as whoever writes:
workers, and servers whose templates look into a result.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from noetl.errors import NoetlError
from noetl.model.outcome import Failure
from noetl.reference import Reference
from noetl.tools.object_store.errors import explained

if TYPE_CHECKING:
    from obstore.store import ObjectStore

URL = r"(s3|gs|az)://[A-Za-z0-9][A-Za-z0-9._-]+(/[^\s?#]*)?|file:///[^\s?#]*"
RETRIES = 3
CONNECT_SECONDS = 5
READ_SECONDS = 60
KEPT = 64
MISSING_DRIVER = "results in an object store need a driver that is not installed: pip install 'noetl-engine[object]'"


def fault_of(url: str) -> str | None:
    """Why results can't be kept at an address; None if they can, as far as it shows."""
    if not re.fullmatch(URL, url):
        return "the address of an object store begins with s3://BUCKET, gs://BUCKET, az://CONTAINER or file:///FOLDER"
    try:
        import obstore  # noqa: F401 - is the driver there?
    except ImportError:
        return MISSING_DRIVER
    return None


def write_object(url: str, reference: Reference, content: bytes) -> Reference:
    """Store content and give the reference that leads there; Failure says why it can't. Blocks."""
    folder, name = url.rstrip("/"), f"{reference.key[:2]}/{reference.key}"
    import obstore
    from obstore.exceptions import BaseError

    try:
        obstore.put(_opened(folder), name, content)
        if folder.startswith("file://"):
            _sync(f"{_path(folder)}/{name}")
    except (BaseError, OSError, ValueError) as error:
        raise explained("object", error, f"{folder}/{name}") from error
    key = f"{folder}/{name}"
    return Reference("object", key, reference.size, reference.checksum, reference.schema_hint, reference.preview)


def read_object(key: str) -> bytes | None:
    """The content at an address; None if there is none, NoetlError if that can't be found out. Blocks."""
    folder, *name = key.rsplit("/", 2)
    if (fault := fault_of(folder)) is not None:
        raise NoetlError(f"{key}: {fault}")
    import obstore
    from obstore.exceptions import BaseError

    try:
        return bytes(obstore.get(_opened(folder), "/".join(name)).bytes())
    except FileNotFoundError:
        return None
    except (BaseError, OSError, ValueError) as error:
        failure: Failure = explained("object", error, key)
        raise NoetlError(str(failure)) from error


@lru_cache(KEPT)
def _opened(folder: str) -> ObjectStore:
    from datetime import timedelta

    from obstore.store import LocalStore, from_url

    if folder.startswith("file://"):
        return LocalStore(_path(folder), mkdir=True)
    limit = timedelta(seconds=READ_SECONDS)
    store: ObjectStore = from_url(
        folder,
        client_options={
            "allow_http": True,  # which is used only if an endpoint in the environment says so
            "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
            "timeout": limit,
        },
        retry_config={"max_retries": RETRIES, "retry_timeout": limit},
    )
    return store


def _path(folder: str) -> str:
    return unquote(folder.removeprefix("file://"))


def _sync(path: str) -> None:
    """Until here it may be in the memory of the machine only."""
    for place in (path, os.path.dirname(path)):
        opened = os.open(place, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
