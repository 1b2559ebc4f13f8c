"""kind: s3. Objects in Amazon S3, or in a store that speaks its protocol."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct

from noetl.model.kind import Kind
from noetl.tools.fields import (
    Auth,
    Bucket,
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
    bucket: Bucket
    region: Annotated[str | None, Meta(description="Region of the bucket")] = None
    endpoint: Annotated[str | None, Meta(description="Address of the store, if it is not Amazon's own")] = None
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
    name="s3",
    summary="Lists, gets, puts, deletes and copies objects in S3 and its kin",
    inputs=Inputs,
    timeout=3600,
    extra="object",
    outcome="s3",
)
