"""One implementation of the kinds that keep objects: gcs, s3 and object.

An operation accepts only the inputs that it uses; it rejects any other instead of ignoring it. A kind says which store
its objects are in, and `run_operation` does the rest through obstore, which is imported by the first call.
"""

import sys

from noetl.tools.object_store.inputs import ObjectInputs
from noetl.tools.object_store.run import StoreAddress, object_kind, run_operation

__all__ = ["ObjectInputs", "StoreAddress", "close", "object_kind", "run_operation"]


async def close() -> None:
    """Drop the stores of the running event loop."""
    stores = sys.modules.get("noetl.tools.object_store.stores")
    if stores is not None:
        stores.drop_stores()
