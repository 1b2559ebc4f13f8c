"""One call of an object kind."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from noetl.model.kind import Kind
from noetl.model.outcome import Failure, Outcome
from noetl.tools.base import Context, missing_driver
from noetl.tools.object_store.inputs import ObjectInputs, check_inputs

BUCKET = r"[A-Za-z0-9][A-Za-z0-9._:-]{1,221}"
SCHEMES = ("s3", "gs", "az", "file", "memory")


def object_kind(name: str, summary: str, inputs: type[ObjectInputs]) -> Kind:
    return Kind(name=name, summary=summary, inputs=inputs, timeout=3600, extra="object", outcome=name)


class StoreAddress(NamedTuple):
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
        """This address; Failure if its bucket, which becomes a part of URLs, has an invalid name."""
        if not re.fullmatch(BUCKET, self.bucket):
            raise Failure("input", f"{self.bucket!r} cannot be the name of a bucket")
        return self

    def url(self, key: str | None) -> str:
        return "/".join([f"{self.scheme}://{self.bucket}", *filter(None, [self.folder.strip("/"), key])])


async def run_operation(
    kind: Kind,
    inputs: ObjectInputs,
    store: StoreAddress | str,
    context: Context,
    *,
    region: str | None = None,
    destination_auth: str | dict[str, Any] | None = None,
) -> Outcome:
    try:
        from obstore.exceptions import BaseError

        from noetl.tools.object_store.errors import driver_failure, store_extra
        from noetl.tools.object_store.operations import OPERATIONS, copy_object
        from noetl.tools.object_store.stores import open_store
    except ImportError:
        return missing_driver(kind.name, "object")
    try:
        check_inputs(inputs)
        address = StoreAddress.parse(store, "url") if isinstance(store, str) else store.checked()
        try:
            fields = None if inputs.auth is None else await context.credential(inputs.auth)
            own = {"endpoint": inputs.endpoint, "region": region}
            location = await open_store(address, fields, own, context, create=inputs.operation == "put")
            if inputs.operation == "copy":
                target, key = _destination(kind, inputs, address)
                if destination_auth is not None and target is not address:
                    fields, own["endpoint"] = await context.credential(destination_auth), None
                elif target.scheme != address.scheme:
                    fields, own["endpoint"] = None, None
                target_location = await open_store(target, fields, own, context, create=True)
                result = await copy_object(inputs, location, target_location, key)
            else:
                result = await OPERATIONS[inputs.operation](inputs, location)
        except (BaseError, OSError, ValueError, NotImplementedError) as error:
            raise driver_failure(kind.name, error, address.url(inputs.key), context.redact) from None
    except Failure as failure:
        return failure.outcome
    return Outcome(result=result, extra=store_extra(kind.name))


def _destination(kind: Kind, inputs: ObjectInputs, source: StoreAddress) -> tuple[StoreAddress, str]:
    """The store and the key that a copy goes to."""
    assert inputs.destination is not None
    if "://" not in inputs.destination:
        return source, inputs.destination
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
