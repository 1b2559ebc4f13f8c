"""kind: gcs. Objects in Google Cloud Storage.

Fields of a credential: those of a service account's key file (`client_email`, `private_key`, ...), or the text of that
file as `service_account`; or `token`, an access token; or `anonymous: true` for a public bucket; and `endpoint` where
the task names none. Without `auth` the worker's own identity signs: the file that `GOOGLE_APPLICATION_CREDENTIALS`
names, or the role of its machine.
"""

from __future__ import annotations

from noetl.model.outcome import Outcome
from noetl.tools.base import Context
from noetl.tools.fields import Bucket
from noetl.tools.object_store import ObjectInputs, StoreAddress, close, object_kind, run_operation

__all__ = ["KIND", "Inputs", "close", "run"]


class Inputs(ObjectInputs, forbid_unknown_fields=True, kw_only=True):
    bucket: Bucket


KIND = object_kind("gcs", "Lists, gets, puts, deletes and copies objects in Google Cloud Storage", Inputs)


async def run(inputs: Inputs, context: Context) -> Outcome:
    return await run_operation(KIND, inputs, StoreAddress("gs", inputs.bucket), context)
