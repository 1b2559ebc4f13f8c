"""Results in an object store: S3, Google Cloud Storage, Azure, or a folder. One object per content, named by its hash.

The process signs in with the environment variables of the vendor (`AWS_ACCESS_KEY_ID`, `GOOGLE_SERVICE_ACCOUNT`,
`AZURE_STORAGE_ACCOUNT_NAME`, ...) or the role of its machine. Readers need that as well as writers: workers, and
servers whose templates look into a result.
"""

from __future__ import annotations

import os
import re
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from noetl.durable import sync
from noetl.errors import NoetlError
from noetl.reference import Reference
from noetl.tools.object_store.run import driver_failure

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore

URL = r"(s3|gs|az)://[A-Za-z0-9][A-Za-z0-9._-]+(/[^\s?#]*)?|file:///[^\s?#]*"
RETRIES = 3


def fault_of(url: str) -> str | None:
    """Why results cannot be stored at an address; None if nothing is wrong with it."""
    if not re.fullmatch(URL, url):
        return "an object store must start with s3://BUCKET, gs://BUCKET, az://CONTAINER or file:///FOLDER"
    try:
        import obstore  # noqa: F401 - is the driver there?
    except ImportError:
        return "results in an object store need a driver that is not installed: pip install 'noetl-engine[object]'"
    return None


def write_object(url: str, reference: Reference, content: bytes) -> Reference:
    """Store content; the reference to the object. Failure if it cannot be stored. Blocks."""
    folder, name = url.rstrip("/"), f"{reference.key[:2]}/{reference.key}"
    import obstore
    from obstore.exceptions import BaseError

    try:
        obstore.put(_opened(folder), name, content)
        if folder.startswith("file://"):
            file = f"{_path(folder)}/{name}"
            sync(file)
            sync(os.path.dirname(file))
    except (BaseError, OSError, ValueError) as error:
        raise driver_failure("object", error, f"{folder}/{name}") from error
    return reference.moved("object", f"{folder}/{name}")


def read_object(key: str) -> bytes | None:
    """The content at an address; None if there is none, NoetlError if the store cannot be read. Blocks."""
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
        raise NoetlError(str(driver_failure("object", error, key))) from error


@lru_cache(64)
def _opened(folder: str) -> ObjectStore:
    from obstore.store import LocalStore, from_url

    if folder.startswith("file://"):
        return LocalStore(_path(folder), mkdir=True)
    minute = timedelta(seconds=60)
    # `allow_http` has an effect only if an endpoint in the environment starts with http://.
    options: ClientConfig = {"allow_http": True, "connect_timeout": timedelta(seconds=5), "timeout": minute}
    return from_url(folder, client_options=options, retry_config={"max_retries": RETRIES, "retry_timeout": minute})


def _path(folder: str) -> str:
    return unquote(folder.removeprefix("file://"))
