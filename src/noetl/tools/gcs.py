"""kind: gcs. Objects in Google Cloud Storage."""

from __future__ import annotations

from msgspec import UNSET, Struct

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
    name="gcs",
    summary="Lists, gets, puts, deletes and copies objects in Google Cloud Storage",
    inputs=Inputs,
    timeout=3600,
    extra="gcs",
    outcome="gcs",
)
