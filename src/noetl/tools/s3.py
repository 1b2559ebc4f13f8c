"""kind: s3. Objects in Amazon S3, or in a store that speaks its protocol.

Fields of a credential: `access_key_id`, `secret_access_key`, `session_token`, and `region` and `endpoint` where the
task names none; or `anonymous: true` for a public bucket. Without `auth` the worker's own identity signs: the `AWS_*`
variables of its environment, or the role of its machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from noetl.model.kind import Kind
from noetl.model.outcome import Failure, Outcome
from noetl.tools.base import Context, missing_driver
from noetl.tools.fields import Bucket
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

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Credential, S3Store

__all__ = ["KIND", "Inputs", "close", "run", "s3_place"]


class Inputs(Asked, forbid_unknown_fields=True, kw_only=True):
    bucket: Bucket
    region: Annotated[str | None, Meta(description="Region of the bucket")] = None
    endpoint: Annotated[str | None, Meta(description="Address of the store, if it is not Amazon's own")] = None


KIND = Kind(
    name="s3",
    summary="Lists, gets, puts, deletes and copies objects in S3 and its kin",
    inputs=Inputs,
    timeout=3600,
    extra="object",
    outcome="s3",
)


async def run(inputs: Inputs, context: Context) -> Outcome:
    """One operation on a bucket."""
    try:
        import obstore  # noqa: F401 - is the driver there?
    except ImportError:
        return missing_driver(KIND.name, "object")
    try:
        check(inputs)
        fields = None if inputs.auth is None else await context.credential(inputs.auth)
        return await outcome(KIND.name, _operate(inputs, fields, context), _shown(inputs), context)
    except Failure as failure:
        return failure.outcome


async def _operate(inputs: Inputs, fields: dict[str, Any] | None, context: Context) -> Any:
    async def place(bucket: str) -> Place:
        return await s3_place(bucket, fields, context, region=inputs.region, endpoint=inputs.endpoint)

    async def target() -> tuple[Place, str]:
        bucket, key = _destination(inputs)
        return await place(bucket), key

    return await perform(inputs, await place(inputs.bucket), target)


def _destination(inputs: Inputs) -> tuple[str, str]:
    """Bucket and key that a copy goes to."""
    assert inputs.destination is not None
    scheme, mark, rest = inputs.destination.partition("://")
    if not mark:
        return inputs.bucket, inputs.destination
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not key:
        raise Failure("input", "`destination` must be a key, or s3://BUCKET/KEY; `kind: object` copies to other stores")
    return bucket, key


def _shown(inputs: Inputs) -> str:
    return f"s3://{inputs.bucket}" + (f"/{inputs.key}" if inputs.key else "")


# -- the store --------------------------------------------------------------------------------------------------------


async def s3_place(
    bucket: str,
    fields: dict[str, Any] | None,
    context: Context,
    *,
    region: str | None = None,
    endpoint: str | None = None,
    folder: str = "",
) -> Place:
    """A bucket, opened with the fields of a credential, or as the worker itself."""
    check_bucket(bucket)
    given = text_fields(fields or {}, "access_key_id", "secret_access_key", "session_token", "region", "endpoint")
    given |= text_fields({"region": region, "endpoint": endpoint}, "region", "endpoint")
    if "endpoint" in given:
        given["endpoint"] = await check_endpoint(given["endpoint"])
    if "region" in given:
        check_label(given["region"], "region")
    anonymous = fields is not None and fields.get("anonymous") is True
    keys = given.keys() & {"access_key_id", "secret_access_key"}
    if len(keys) == 1 or (fields is not None and not keys and not anonymous):
        wanted = "`access_key_id` and `secret_access_key`, or `anonymous: true`"
        raise Failure("auth", f"a credential for S3 must have {wanted}")
    identity = ["s3", bucket, given, anonymous, context.retries]
    return Place(pooled(identity, lambda: _open(bucket, given, anonymous, context)), f"s3://{bucket}", folder)


def _open(bucket: str, given: dict[str, str], anonymous: bool, context: Context) -> S3Store:
    from obstore.store import S3Store

    config: S3Config = {"skip_signature": anonymous}
    if region := given.get("region"):
        config["region"] = region
    if endpoint := given.get("endpoint"):
        # The second is what a variable of the environment would set, and it would win.
        config |= {"endpoint": endpoint, "aws_endpoint_url_s3": endpoint}
    provider = None if "access_key_id" not in given else lambda: _credential(given)
    return S3Store(
        bucket,
        config=config,
        client_options=client_options(given.get("endpoint")),
        retry_config=retry_options(context),
        credential_provider=provider,
    )


def _credential(given: dict[str, str]) -> S3Credential:
    """What signs, as a whole: single settings would be mixed with those of the environment."""
    return {
        "access_key_id": given["access_key_id"],
        "secret_access_key": given["secret_access_key"],
        "token": given.get("session_token"),
        "expires_at": None,
    }
