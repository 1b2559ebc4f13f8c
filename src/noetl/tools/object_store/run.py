"""One call of an object kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from noetl.model.kind import Kind
from noetl.model.outcome import Failure, Outcome
from noetl.tools.base import Context, missing_driver
from noetl.tools.object_store.errors import answered, explained
from noetl.tools.object_store.inputs import ObjectInputs, check_bucket, check_inputs
from noetl.tools.object_store.operations import (
    Location,
    copy_object,
    delete_object,
    get_object,
    list_objects,
    put_object,
)
from noetl.tools.object_store.stores import open_azure, open_folder, open_gcs, open_memory, open_s3

SCHEMES = ("s3", "gs", "az", "file", "memory")
OPERATIONS = {"list": list_objects, "get": get_object, "put": put_object, "delete": delete_object}
"""All but `copy`, which has a second location."""


def object_kind(name: str, summary: str, inputs: type[ObjectInputs]) -> Kind:
    return Kind(name=name, summary=summary, inputs=inputs, timeout=3600, extra="object", outcome=name)


class StoreAddress(NamedTuple):
    """The URL of a store in its parts."""

    scheme: str
    bucket: str
    folder: str = ""
    """Without slashes at its ends; of files, the absolute path."""

    @staticmethod
    def parse(url: str, field: str) -> StoreAddress:
        scheme, separator, rest = url.partition("://")
        host, _, path = rest.partition("/")
        if not separator or scheme not in SCHEMES:
            raise Failure("input", f"`{field}` must begin with s3://, gs://, az://, file:/// or memory://")
        if scheme == "file":
            from urllib.parse import unquote

            if host:
                raise Failure("input", f"`{field}` must have three slashes and a whole path: file:///folder")
            return StoreAddress(scheme, "", unquote(f"/{path}"))
        address = StoreAddress(scheme, host, path.strip("/"))
        return address if scheme == "memory" else address.checked()

    def checked(self) -> StoreAddress:
        """This address; Failure if its bucket has an invalid name."""
        check_bucket(self.bucket)
        return self

    def url(self, key: str | None) -> str:
        return "/".join([f"{self.scheme}://{self.bucket}", *filter(None, [self.folder.strip("/"), key])])


async def run_operation(
    kind: Kind,
    inputs: ObjectInputs,
    address_of: Callable[[], StoreAddress],
    context: Context,
    *,
    region: str | None = None,
    destination_auth: str | dict[str, Any] | None = None,
) -> Outcome:
    """The outcome of an operation on the store at an address; `address_of` may raise a Failure."""
    try:
        from obstore.exceptions import BaseError
    except ImportError:
        return missing_driver(kind.name, "object")
    try:
        check_inputs(inputs)
        address = address_of()
    except Failure as failure:
        return failure.outcome
    try:
        fields = None if inputs.auth is None else await context.credential(inputs.auth)
        location = await _open(address, fields, inputs.endpoint, region, context, create=inputs.operation == "put")
        if inputs.operation != "copy":
            return Outcome(result=await OPERATIONS[inputs.operation](inputs, location), extra=answered(kind.name))
        target, key = _destination(kind, inputs, address)
        target_location = location
        if target is not None:
            endpoint = inputs.endpoint
            if destination_auth is not None:
                fields, endpoint = await context.credential(destination_auth), None
            elif target.scheme != address.scheme:
                fields, endpoint = None, None
            target_location = await _open(target, fields, endpoint, region, context, create=True)
        result = await copy_object(inputs, location, target_location, key)
        return Outcome(result=result, extra=answered(kind.name))
    except Failure as failure:
        return failure.outcome
    except (BaseError, OSError, ValueError, NotImplementedError) as error:
        return explained(kind.name, error, address.url(inputs.key), context.redact).outcome


def _destination(kind: Kind, inputs: ObjectInputs, source: StoreAddress) -> tuple[StoreAddress | None, str]:
    """The store (None for that of the task) and the key that a copy goes to."""
    assert inputs.destination is not None
    if "://" not in inputs.destination:
        return None, inputs.destination
    folder, _, key = inputs.destination.rpartition("/")
    if kind.name != "object":
        scheme, _, rest = inputs.destination.partition("://")
        if scheme != source.scheme or not rest.partition("/")[2]:
            expected = f"{source.scheme}://BUCKET/KEY; `kind: object` copies to other stores"
            raise Failure("input", f"`destination` must be a key, or {expected}")
    target = StoreAddress.parse(f"{folder}/", "destination")
    if not key or not (target.bucket or target.scheme in ("file", "memory")):
        raise Failure("input", "`destination` names no object: it must end with a key")
    return target, key


async def _open(
    address: StoreAddress,
    fields: dict[str, Any] | None,
    endpoint: str | None,
    region: str | None,
    context: Context,
    *,
    create: bool,
) -> Location:
    match address.scheme:
        case "s3":
            location = await open_s3(address.bucket, fields, endpoint, region, context)
        case "gs":
            location = await open_gcs(address.bucket, fields, endpoint, context)
        case "az":
            location = await open_azure(address.bucket, fields, endpoint, context)
        case "file":
            return open_folder(address.folder, create=create)
        case _:
            location = open_memory(address.bucket)
    return location._replace(folder=address.folder)
