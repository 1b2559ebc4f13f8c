"""The inputs of the object kinds, and the checks that need no store."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct
from msgspec.structs import fields

from noetl.model.outcome import Failure
from noetl.tools.fields import Auth

MAX_KEY_BYTES = 1_024
"""The limit of S3 and GCS."""
DEFAULT_LIMIT = 1000

USES: dict[str, frozenset[str]] = {
    "list": frozenset(["prefix", "limit"]),
    "get": frozenset(["key", "file"]),
    "put": frozenset(["key", "data", "file", "content_type", "metadata"]),
    "delete": frozenset(["key"]),
    "copy": frozenset(["key", "destination", "destination_auth"]),
}
"""The inputs of each operation that not every operation has."""
ENDPOINT = r"https?://(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?(/[^\s\\]*)?"


class ObjectInputs(Struct, forbid_unknown_fields=True, kw_only=True):
    operation: Annotated[Literal["list", "get", "put", "delete", "copy"], Meta(description="What to do")]
    key: Annotated[str | None, Meta(description="Object to get, put or delete, or to copy from")] = None
    prefix: Annotated[str | None, Meta(description="Lists only the objects whose key starts with this")] = None
    limit: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="Maximum number of objects to list")] = (
        DEFAULT_LIMIT
    )
    data: Annotated[
        Any, Meta(description="Content to put: text as it is, a result reference as its bytes, any other value as JSON")
    ] = UNSET
    file: Annotated[str | None, Meta(description="File on the worker that `put` reads, or that `get` writes")] = None
    destination: Annotated[
        str | None, Meta(description="Where to copy to: a key in the same bucket, or a whole URL")
    ] = None
    content_type: Annotated[
        str | None, Meta(description="Media type to store with the object; guessed from the key by default")
    ] = None
    metadata: Annotated[dict[str, str], Meta(description="Custom metadata to store with the object")] = {}
    endpoint: Annotated[str | None, Meta(description="Address of the store, if it is not the vendor's own")] = None
    auth: Auth = None


def check_inputs(inputs: ObjectInputs) -> None:
    """Failure if the operation lacks an input, or would ignore one."""
    operation = inputs.operation
    unused = frozenset().union(*USES.values()) - USES[operation]
    for field in fields(inputs):
        default = {} if field.name == "metadata" else field.default
        if field.name in unused and getattr(inputs, field.name) != default:
            raise Failure("input", f"operation {operation} takes no `{field.name}`: leave it out")
    if operation != "list" and not inputs.key:
        raise Failure("input", f"operation {operation} needs a `key`")
    if len((inputs.key or "").encode("utf-8", "replace")) > MAX_KEY_BYTES:
        raise Failure("input", f"the key of an object has at most {MAX_KEY_BYTES:,} bytes")
    if operation == "copy" and not inputs.destination:
        raise Failure("input", "operation copy needs a `destination`")
    if operation == "put" and (inputs.data is UNSET) == (inputs.file is None):
        raise Failure("input", "operation put needs either `data` or `file`")


async def check_endpoint(endpoint: str, field: str = "endpoint") -> str:
    """The address of a store, without a trailing slash; Failure if requests to it are not allowed.

    The driver parses it too, by rules of its own: only what both parse alike is accepted.
    """
    from noetl.addresses import check_host

    address = re.fullmatch(ENDPOINT, endpoint)
    if address is None or int(address["port"] or 1) not in range(1, 65_536):
        raise Failure("input", f"`{field}` must start with http:// or https://")
    await check_host(address["host"].strip("[]"))
    return endpoint.rstrip("/")


def check_label(text: str, field: str) -> str:
    """A region or an account, which becomes a part of the host name; Failure if it is invalid."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", text):
        raise Failure("input", f"`{field}` must contain only letters, digits and hyphens")
    return text
