"""kind: object. Objects in whichever store a URL names: S3, Google Cloud Storage, Azure, a folder of the worker."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec.structs import replace

from noetl.model.kind import OperationInputs, doc
from noetl.model.outcome import Outcome
from noetl.tools.base import Context
from noetl.tools.object_store.run import OPERATION_INPUTS, ObjectInputs, close, object_kind, run_operation

__all__ = ["KIND", "Inputs", "close", "run"]


class Inputs(ObjectInputs, forbid_unknown_fields=True, kw_only=True):
    url: Annotated[str, doc("Store: `s3://bucket`, `gs://bucket`, `az://container`, `file:///folder`")]
    destination_auth: Annotated[str | dict[str, Any] | None, doc("As `auth`, for a copy into another store")] = None


COPY = OperationInputs.of("destination_auth", needs=("key", "destination"))
KIND = replace(
    object_kind("object", "Lists, gets, puts, deletes and copies objects in the store that a URL names", Inputs),
    operations=OPERATION_INPUTS | {"copy": COPY},
)


async def run(inputs: Inputs, context: Context) -> Outcome:
    return await run_operation(KIND, inputs, inputs.url, context, inputs.destination_auth)
