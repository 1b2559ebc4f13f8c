"""One implementation of the kinds that keep objects: gcs, s3 and object.

An operation accepts only the inputs that it uses; it rejects any other instead of ignoring it. A kind says which store
its objects are in, and `run_operation` does the rest through obstore.
"""

from noetl.tools.object_store.inputs import ObjectInputs
from noetl.tools.object_store.run import StoreAddress, object_kind, run_operation
from noetl.tools.object_store.stores import close

__all__ = ["ObjectInputs", "StoreAddress", "close", "object_kind", "run_operation"]
