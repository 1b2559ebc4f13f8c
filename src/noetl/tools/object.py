"""kind: object. Objects in whichever store a URL names: S3, Google Cloud Storage, Azure, a folder of the worker.

A path in the URL is a folder that all keys are in. Fields of a credential, by store: `s3://` those of `kind: s3`;
`gs://` those of `kind: gcs`; `az://` `account_name` with `account_key`, `sas_key`, `token`, or `client_id`,
`client_secret` and `tenant_id`. Each may have `endpoint`, and `anonymous: true` in the place of keys. Without `auth`
the worker's own identity is used. Files need none; no key leads out of the folder.

`memory://` keeps objects in the worker's own memory until it ends, for trying a playbook out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta

from noetl.model.kind import Kind
from noetl.model.outcome import Failure, Outcome
from noetl.tools.base import Context, missing_driver
from noetl.tools.gcs import checked_account
from noetl.tools.objects import (
    Asked,
    Place,
    check,
    check_bucket,
    check_endpoint,
    check_label,
    client_options,
    close,
    outcome,
    perform,
    pooled,
    retry_options,
    text_fields,
)
from noetl.tools.s3 import s3_place

if TYPE_CHECKING:
    from obstore.store import GCSConfig

__all__ = ["KIND", "Inputs", "close", "run"]

AZURE_KEYS = (
    frozenset(["account_key"]),
    frozenset(["sas_key"]),
    frozenset(["token"]),
    frozenset(["client_id", "client_secret", "tenant_id"]),
)
"""What signs requests to Azure: one of these."""


class Inputs(Asked, forbid_unknown_fields=True, kw_only=True):
    url: Annotated[
        str,
        Meta(description="Store to work in: `s3://bucket`, `gs://bucket`, `az://container`, `file:///folder`"),
    ]
    endpoint: Annotated[str | None, Meta(description="Address of the store, if it is not the vendor's own")] = None
    destination_auth: Annotated[
        str | dict[str, Any] | None,
        Meta(description="The same as `auth`, for a copy into a store of another kind"),
    ] = None


KIND = Kind(
    name="object",
    summary="Lists, gets, puts, deletes and copies objects in the store that a URL names",
    inputs=Inputs,
    timeout=3600,
    extra="object",
    outcome="object",
)


class Address(NamedTuple):
    """A URL in its parts."""

    scheme: str
    bucket: str
    folder: str
    """The path, without slashes at its ends; of files, the folder with them."""


async def run(inputs: Inputs, context: Context) -> Outcome:
    """One operation on a store."""
    try:
        import obstore  # noqa: F401 - is the driver there?
    except ImportError:
        return missing_driver(KIND.name, "object")
    try:
        check(inputs)
        address = _address(inputs.url, "url")
        fields = None if inputs.auth is None else await context.credential(inputs.auth)
        shown = inputs.url.rstrip("/") + (f"/{inputs.key}" if inputs.key else "")
        return await outcome(KIND.name, _operate(inputs, address, fields, context), shown, context)
    except Failure as failure:
        return failure.outcome


async def _operate(inputs: Inputs, address: Address, fields: dict[str, Any] | None, context: Context) -> Any:
    place = await _place(address, fields, inputs.endpoint, context, create=inputs.operation == "put")

    async def target() -> tuple[Place, str]:
        assert inputs.destination is not None
        if "://" not in inputs.destination:
            return place, inputs.destination
        folder, _, key = inputs.destination.rpartition("/")
        goal = _address(f"{folder}/", "destination")
        if not key or not (goal.bucket or goal.scheme in ("file", "memory")):
            raise Failure("input", "`destination` names no object: it must end with a key")
        theirs, endpoint = fields, inputs.endpoint
        if inputs.destination_auth is not None:
            theirs, endpoint = await context.credential(inputs.destination_auth), None
        elif goal.scheme != address.scheme:
            theirs, endpoint = None, None
        return await _place(goal, theirs, endpoint, context, create=True), key

    return await perform(inputs, place, target)


# -- stores -----------------------------------------------------------------------------------------------------------


def _address(url: str, what: str) -> Address:
    scheme, mark, rest = url.partition("://")
    host, _, path = rest.partition("/")
    if not mark or scheme not in ("s3", "gs", "az", "file", "memory"):
        raise Failure("input", f"`{what}` must begin with s3://, gs://, az://, file:/// or memory://")
    if scheme == "file":
        if host:
            raise Failure("input", f"`{what}` must have three slashes and a whole path: file:///folder")
        return Address(scheme, "", f"/{path}")
    if scheme != "memory":
        check_bucket(host)
    return Address(scheme, host, path.strip("/"))


async def _place(
    address: Address, fields: dict[str, Any] | None, endpoint: str | None, context: Context, *, create: bool
) -> Place:
    match address.scheme:
        case "s3":
            return await s3_place(address.bucket, fields, context, endpoint=endpoint, folder=address.folder)
        case "gs":
            return await _google(address, fields, endpoint, context)
        case "az":
            return await _azure(address, fields, endpoint, context)
        case "file":
            return _folder(address, create)
        case _:
            return _memory(address)


async def _google(address: Address, fields: dict[str, Any] | None, endpoint: str | None, context: Context) -> Place:
    from obstore.store import GCSStore

    given = text_fields((fields or {}) | ({"endpoint": endpoint} if endpoint else {}), "endpoint", "token")
    config: GCSConfig = {"skip_signature": fields is not None and fields.get("anonymous") is True}
    if "endpoint" in given:
        config["base_url"] = await check_endpoint(given["endpoint"])
    if fields is not None and not config["skip_signature"]:
        if "token" in given:
            config["bearer_token"] = given["token"]
        else:
            config["service_account_key"] = await checked_account(fields)

    def open_store() -> GCSStore:
        return GCSStore(
            address.bucket,
            config=config,
            client_options=client_options(given.get("endpoint")),
            retry_config=retry_options(context),
        )

    identity = ["gs", address.bucket, config, context.retries]
    return Place(pooled(identity, open_store), f"gs://{address.bucket}", address.folder)


async def _azure(address: Address, fields: dict[str, Any] | None, endpoint: str | None, context: Context) -> Place:
    from obstore.store import AzureStore

    names = frozenset(["account_name", "endpoint"]).union(*AZURE_KEYS)
    given = text_fields((fields or {}) | ({"endpoint": endpoint} if endpoint else {}), *sorted(names))
    if "endpoint" in given:
        given["endpoint"] = await check_endpoint(given["endpoint"])
    if "account_name" in given:
        check_label(given["account_name"], "account_name")
    anonymous = fields is not None and fields.get("anonymous") is True
    signed = any(keys <= given.keys() for keys in AZURE_KEYS)
    if fields is not None and not (signed or anonymous):
        wanted = "`account_key`, `sas_key`, `token`, or `client_id`, `client_secret` and `tenant_id`"
        raise Failure("auth", f"a credential for Azure must have `account_name` and one of {wanted}")
    config: Any = {**given, "skip_signature": anonymous}

    def open_store() -> AzureStore:
        return AzureStore(
            address.bucket,
            config=config,
            client_options=client_options(given.get("endpoint")),
            retry_config=retry_options(context),
        )

    identity = ["az", address.bucket, config, context.retries]
    return Place(pooled(identity, open_store), f"az://{address.bucket}", address.folder)


def _folder(address: Address, create: bool) -> Place:
    from pathlib import Path
    from urllib.parse import unquote

    from obstore.store import LocalStore

    from noetl.tools.files import task_file

    folder = Path(task_file(unquote(address.folder), "url"))
    if not create and not folder.is_dir():
        raise Failure("not_found", f"this worker has no folder {str(folder)!r}")
    store = LocalStore(folder, mkdir=create)
    return Place(store, f"file://{folder}", local=True)


def _memory(address: Address) -> Place:
    from obstore.store import MemoryStore

    return Place(pooled(["memory", address.bucket], MemoryStore), f"memory://{address.bucket}", address.folder)
