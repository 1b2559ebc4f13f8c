"""kind: gcs. Objects in Google Cloud Storage."""

from __future__ import annotations

from noetl.model.outcome import Outcome
from noetl.tools.base import Context
from noetl.tools.fields import Bucket
from noetl.tools.object_store.run import ObjectInputs, StoreAddress, close, object_kind, run_operation

__all__ = ["KIND", "Inputs", "close", "run"]


class Inputs(ObjectInputs, forbid_unknown_fields=True, kw_only=True):
    bucket: Bucket


KIND = object_kind(
    "gcs",
    "Lists, gets, puts, deletes and copies objects in Google Cloud Storage",
    Inputs,
    *("gcs_credential", "bearer", "oauth2_client_credentials"),
)


async def run(inputs: Inputs, context: Context) -> Outcome:
    return await run_operation(KIND, inputs, StoreAddress("gs", inputs.bucket), context)
