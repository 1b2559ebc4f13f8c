"""Which stores of large results a playbook names, and which of them this process can't use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from noetl.model.playbook import Playbook
from noetl.reference import Reference

BUCKET = "noetl-results"
"""The bucket of NATS, where a playbook names none."""
NAME = r"[-_a-zA-Z0-9]+"

Store = dict[str, Any]


def named_stores(playbook: Playbook) -> Iterator[tuple[str, Store]]:
    """Each store that is named, with the place (`STEP/LABEL`, or `executor.spec` for the whole playbook)."""
    if common := playbook.executor.result_store:
        yield "executor.spec", common
    for step in playbook.steps:
        for place, task in step.every_task:
            if (store := task.spec.get("results", {}).get("store")) not in (None, common):
                yield place, store


def bucket_of(store: Store) -> str:
    """The bucket of NATS that a store means."""
    return str(store.get("bucket") or BUCKET)


def in_bucket(reference: Reference, bucket: str) -> Reference:
    """The reference to the same content in a bucket of NATS."""
    key = f"{bucket}/{reference.key}"
    return Reference("nats_object", key, reference.size, reference.checksum, reference.schema_hint, reference.preview)


def buckets(playbook: Playbook) -> set[str]:
    """All buckets of NATS in which results of a playbook may be."""
    return {bucket_of(store) for _, store in named_stores(playbook) if store.get("kind") == "nats_object"}


def is_named(playbook: Playbook, reference: Reference) -> bool:
    """Whether a reference leads to where the playbook has large results written, outside of the database."""
    return any(
        store.get("kind") == reference.store and _leads_into(store, reference) for _, store in named_stores(playbook)
    )


def _leads_into(store: Store, reference: Reference) -> bool:
    digest, key = reference.digest, reference.key
    match reference.store:
        case "file":  # a relative folder is one of the worker's
            path = str(Path(str(store.get("path", ".noetl/results"))) / digest[:2] / digest)
            return key == path if path.startswith("/") else key.startswith("/") and key.endswith(f"/{path}")
        case "object":
            return key == f"{str(store.get('url')).rstrip('/')}/{digest[:2]}/{digest}"
        case "nats_object":
            return key == f"{bucket_of(store)}/{digest}"
    return False


def fault(store: Store, *, nats: bool) -> str | None:
    """Why a store can't be used here; None if it can."""
    if store.get("kind") == "object":
        from noetl.results.object import fault_of

        return fault_of(str(store.get("url") or ""))
    if store.get("kind") == "nats_object":
        if not re.fullmatch(NAME, bucket_of(store)):
            return f"{store['bucket']!r} can't be a bucket of NATS: letters, digits, - and _"
        if not nats:
            return "results in `nats_object` need NATS, and none is configured: set NOETL_NATS, or --nats of the server"
    return None
