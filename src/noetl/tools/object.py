"""kind: object. Objects in whichever store a URL names: S3, GCS, Azure, a folder."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct

from noetl.model.kind import Kind
from noetl.tools.fields import (
    Auth,
    ContentType,
    Destination,
    Limit,
    LocalFile,
    ObjectData,
    ObjectKey,
    ObjectMetadata,
    ObjectOperation,
    Prefix,
)


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    operation: ObjectOperation
    url: Annotated[
        str,
        Meta(description="Store to work in: `s3://bucket`, `gs://bucket`, `az://container`, `file:///folder`"),
    ]
    endpoint: Annotated[str | None, Meta(description="Address of the store, if it is not the vendor's own")] = None
    key: ObjectKey = None
    prefix: Prefix = None
    limit: Limit = None
    data: ObjectData = UNSET
    file: LocalFile = None
    destination: Destination = None
    content_type: ContentType = None
    metadata: ObjectMetadata = {}
    auth: Auth = None


KIND = Kind(
    name="object",
    summary="Lists, gets, puts, deletes and copies objects in the store that a URL names",
    inputs=Inputs,
    timeout=3600,
    extra="object",
    outcome="object",
)
