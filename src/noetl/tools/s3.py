"""kind: s3. Objects in Amazon S3, or in a store that speaks its protocol."""

from __future__ import annotations

from typing import Annotated

from noetl.model.kind import doc
from noetl.model.outcome import Outcome
from noetl.tools.base import Context
from noetl.tools.fields import Bucket
from noetl.tools.object_store.run import ObjectInputs, StoreAddress, close, object_kind, run_operation

__all__ = ["KIND", "Inputs", "close", "run"]


class Inputs(ObjectInputs, forbid_unknown_fields=True, kw_only=True):
    bucket: Bucket
    region: Annotated[str | None, doc("Region of the bucket")] = None


KIND = object_kind(
    "s3", "Lists, gets, puts, deletes and copies objects in S3 and compatible stores", Inputs, "s3_credential"
)


async def run(inputs: Inputs, context: Context) -> Outcome:
    return await run_operation(KIND, inputs, StoreAddress("s3", inputs.bucket, region=inputs.region), context)
