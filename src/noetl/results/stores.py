"""The stores of large results that a playbook names, and whether this process can use them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from noetl.durable import replace_file
from noetl.model.playbook import Playbook
from noetl.reference import Reference

BUCKET = "noetl-results"  # the default bucket of NATS
NAME = r"[-_a-zA-Z0-9]+"

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
    return reference.moved("nats_object", f"{bucket}/{reference.key}")


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
    return reference.moved("file", str(path))


def fault(store: Store, *, nats: bool) -> str | None:
    """Why a store cannot be used here; None if it can."""
    if store.get("kind") == "object":
        from noetl.results.object import fault_of

        return fault_of(str(store.get("url") or ""))
    if store.get("kind") == "nats_object":
        if not re.fullmatch(NAME, bucket_of(store)):
            return f"{store['bucket']!r} is not a valid NATS bucket: use letters, digits, - and _"
        if not nats:
            return "results in `nats_object` need NATS: set NOETL_NATS, or --nats of the server"
    return None
