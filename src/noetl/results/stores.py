"""The stores of large results that a playbook names: files, NATS, and object stores (S3, Google Cloud Storage, Azure, a
folder). One file or object per content, named by its hash.

The process signs in to an object store with the environment variables of the vendor (`AWS_ACCESS_KEY_ID`,
`GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_NAME`, ...) or the role of its machine. Readers need that as well as
writers: workers, and servers whose templates look into a result.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import uuid4

from noetl.durable import replace_file, sync
from noetl.errors import NoetlError
from noetl.model.playbook import Playbook
from noetl.reference import Reference

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore

BUCKET = "noetl-results"  # the default bucket of NATS
NAME = r"[-_a-zA-Z0-9]+"
URL = r"(s3|gs|az)://[A-Za-z0-9][A-Za-z0-9._-]+(/[^\s?#]*)?|file:///[^\s?#]*"
RETRIES = 3

Store = dict[str, Any]


def named_stores(playbook: Playbook) -> Iterator[tuple[str, Store]]:
    """Each named store with its place in the playbook: `STEP/LABEL`, or `executor.spec`."""
    if common := playbook.executor.result_store:
        yield "executor.spec", common
    for step in playbook.steps:
        for place, task in step.every_task:
            if (store := task.spec.get("results", {}).get("store")) not in (None, common):
                yield place, store


def bucket_of(store: Store) -> str:
    return str(store.get("bucket") or BUCKET)


def in_bucket(reference: Reference, bucket: str) -> Reference:
    return reference.stored_at("nats_object", f"{bucket}/{reference.key}")


def buckets(playbook: Playbook) -> set[str]:
    return {bucket_of(store) for _, store in named_stores(playbook) if store.get("kind") == "nats_object"}


def is_named(playbook: Playbook, reference: Reference) -> bool:
    digest, key = reference.digest, reference.key

    def leads_into(store: Store) -> bool:
        match reference.store:
            case "file":  # a relative folder is relative to that of the worker
                path = str(Path(str(store.get("path", ".noetl/results"))) / digest[:2] / digest)
                return key == path if path.startswith("/") else key.startswith("/") and key.endswith(f"/{path}")
            case "object":
                return key == f"{str(store.get('url')).rstrip('/')}/{digest[:2]}/{digest}"
            case "nats_object":
                return key == f"{bucket_of(store)}/{digest}"
        return False

    return any(store.get("kind") == reference.store and leads_into(store) for _, store in named_stores(playbook))


def write_file(folder: str, reference: Reference, content: bytes) -> Reference:
    """Store content in a file named by its hash, atomically; the reference to the file."""
    path = Path(folder).absolute() / reference.key[:2] / reference.key
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content, path.with_name(f"{path.name}.{uuid4().hex}"))
    return reference.stored_at("file", str(path))


def fault(store: Store, *, nats: bool) -> str | None:
    """Why a store cannot be used here; None if it can."""
    if store.get("kind") == "object":
        return fault_of(str(store.get("url") or ""))
    if store.get("kind") == "nats_object":
        if not re.fullmatch(NAME, bucket_of(store)):
            return f"{store['bucket']!r} is not a valid NATS bucket: use letters, digits, - and _"
        if not nats:
            return "results in `nats_object` need NATS: set NOETL_NATS, or --nats of the server"
    return None


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

    from noetl.tools.object_store.run import driver_failure

    try:
        obstore.put(_opened(folder), name, content)
        if folder.startswith("file://"):
            file = f"{_path(folder)}/{name}"
            sync(file)
            sync(os.path.dirname(file))
    except (BaseError, OSError, ValueError) as error:
        raise driver_failure("object", error, f"{folder}/{name}") from error
    return reference.stored_at("object", f"{folder}/{name}")


def read_object(key: str) -> bytes | None:
    """The content at an address; None if there is none, NoetlError if the store cannot be read. Blocks."""
    folder, *name = key.rsplit("/", 2)
    if (fault := fault_of(folder)) is not None:
        raise NoetlError(f"{key}: {fault}")
    import obstore
    from obstore.exceptions import BaseError

    from noetl.tools.object_store.run import driver_failure

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
