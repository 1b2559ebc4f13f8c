"""One call of an object kind: its inputs, the checks that need no store, and the errors of the driver.

An operation accepts only the inputs that it uses; it rejects any other instead of ignoring it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import unquote

from msgspec import UNSET, Meta, Struct

from noetl.model.kind import Kind, OperationInputs, doc
from noetl.model.operations import check_operation
from noetl.model.outcome import Failure, Outcome
from noetl.tools.base import Context, missing_driver
from noetl.tools.fields import Auth

BUCKET = r"[A-Za-z0-9][A-Za-z0-9._:-]{1,221}"
MAX_KEY_BYTES = 1_024
OPERATION_INPUTS = {
    "list": OperationInputs.of("prefix", "limit"),
    "get": OperationInputs.of("file", needs=("key",)),
    "put": OperationInputs.of("content_type", "metadata", needs=("key", ("data", "file"))),
    "delete": OperationInputs.of(needs=("key",)),
    "copy": OperationInputs.of(needs=("key", "destination")),
}
NO_IDENTITY = (
    r"(?i)credential|token request|Missing *(Account|\w*AccessKey)|Invalid Access Key|Account must be specified"
)
METADATA_PATH = r"/latest/(api/token|meta-data)|/computeMetadata/|/metadata/identity"  # for the role of the machine


class ObjectInputs(Struct, forbid_unknown_fields=True, kw_only=True):
    operation: Annotated[Literal["list", "get", "put", "delete", "copy"], doc("Operation to perform")]
    key: Annotated[str | None, doc("Object to get, put or delete, or to copy from")] = None
    prefix: Annotated[str | None, doc("Lists only the objects whose key starts with this")] = None
    limit: Annotated[Annotated[int, Meta(ge=1)] | None, doc("Maximum number of objects to list")] = 1000
    data: Annotated[Any, doc("Content: text as it is, a result reference as its bytes, else JSON")] = UNSET
    file: Annotated[str | None, doc("File on the worker that `put` reads, or that `get` writes")] = None
    destination: Annotated[str | None, doc("Target of a copy: a key in the same bucket, or a URL")] = None
    content_type: Annotated[str | None, doc("Media type; guessed from the key by default")] = None
    metadata: Annotated[dict[str, str], doc("Custom metadata to store with the object")] = {}
    endpoint: Annotated[str | None, doc("Address of the store, if it is not the vendor's own")] = None
    auth: Auth = None


def object_kind(name: str, summary: str, inputs: type[ObjectInputs], *credentials: str) -> Kind:
    return Kind(
        name=name,
        summary=summary,
        inputs=inputs,
        timeout=3600,
        extra="object",
        outcome=name,
        credentials=credentials,
        operations=OPERATION_INPUTS,
    )


def _check(kind: Kind, inputs: ObjectInputs) -> None:
    check_operation(kind, inputs)
    if len((inputs.key or "").encode("utf-8", "replace")) > MAX_KEY_BYTES:
        raise Failure("input", f"the key of an object has at most {MAX_KEY_BYTES:,} bytes")


class StoreAddress(NamedTuple):
    scheme: str
    bucket: str
    folder: str = ""  # without slashes at its ends; of files, the absolute path
    region: str | None = None

    @staticmethod
    def parse(url: str, field: str) -> StoreAddress:
        scheme, separator, rest = url.partition("://")
        host, _, path = rest.partition("/")
        if not separator or scheme not in ("s3", "gs", "az", "file", "memory"):
            raise Failure("input", f"`{field}` must begin with s3://, gs://, az://, file:/// or memory://")
        if scheme == "file":
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
    kind: Kind, inputs: ObjectInputs, store: StoreAddress | str, context: Context, destination_auth: Auth = None
) -> Outcome:
    try:
        from obstore.exceptions import BaseError

        from noetl.tools.object_store.stores import OPERATIONS, copy_object, open_store
    except ImportError:
        return missing_driver(kind.name, "object")
    _check(kind, inputs)
    address = StoreAddress.parse(store, "url") if isinstance(store, str) else store.checked()
    try:
        credential = None if inputs.auth is None else await context.credential(inputs.auth)
        own = {"endpoint": inputs.endpoint, "region": address.region}
        location = await open_store(address, credential, own, context, create=inputs.operation == "put")
        if inputs.operation == "copy":
            target, key = _destination(kind, inputs, address)
            if destination_auth is not None and target is not address:
                credential, own["endpoint"] = await context.credential(destination_auth), None
            elif target.scheme != address.scheme:
                credential, own["endpoint"] = None, None
            target_location = await open_store(target, credential, own, context, create=True)
            result = await copy_object(inputs, location, target_location, key)
        else:
            result = await OPERATIONS[inputs.operation](inputs, location)
    except (BaseError, OSError, ValueError, NotImplementedError) as error:
        raise driver_failure(kind.name, error, address.url(inputs.key), context.redact) from None
    return Outcome(result=result, extra={kind.name: {"status": None, "code": None}})


def _destination(kind: Kind, inputs: ObjectInputs, source: StoreAddress) -> tuple[StoreAddress, str]:
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


def driver_failure(kind: str, error: Exception, location: str, redact: Callable[[str], str] = str) -> Failure:
    from obstore import exceptions

    text = redact(str(error)).partition("\n\nDebug source")[0]
    status = int(match[1]) if (match := re.search(r"status code: (\d{3})", text)) else None
    code = match[1] if (match := re.search(r"<Code>(\w+)</Code>", text)) else None
    extra = {kind: {"status": status, "code": code}}
    # Without XML, durations, and query strings, which may sign a request.
    line = re.sub(r" in [\d.]+\w?s - ", " - ", " ".join(text.partition("<?xml")[0].split())).rstrip(" :")
    line = re.sub(r"\?\S*", "?...", line)
    if match := re.search(r"<Message>([^<]*)</Message>", text):
        line += f": {match[1]}"
    message = f"{location}: {line[:400]}"
    generic = isinstance(error, exceptions.GenericError)
    if generic and (re.search(METADATA_PATH, text) or re.search(NO_IDENTITY, re.sub(r"https?://\S+", "", text))):
        return Failure("auth", f"{message}: give `auth`, or credentials in the environment of the worker", extra=extra)
    if isinstance(error, FileNotFoundError) or status == 404:
        return Failure("not_found", f"{location} does not exist{f' ({code})' if code else ''}", extra=extra)
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError) or status in (401, 403):
        return Failure("auth", f"{message}: check `auth` and its permissions", extra=extra)
    rejected = status is not None and status < 500 and status not in (408, 429)
    if not generic or "LocalFileSystem" in text or rejected:
        return Failure("input", message, extra=extra)
    return Failure("connect", message, retryable=True, extra=extra)


async def close() -> None:
    if (stores := sys.modules.get("noetl.tools.object_store.stores")) is not None:
        stores.drop_stores()
