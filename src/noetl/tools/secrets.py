"""kind: secrets. Fetches a secret as a handle; its value never reaches the log."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct

from noetl.model.kind import Kind, doc
from noetl.model.outcome import Outcome, failed
from noetl.tools.base import Context


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    provider: Annotated[
        Literal["env", "file", "credential", "google", "aws", "vault"],
        doc("Where the secret is; `credential` is noetl's own store"),
    ] = "credential"
    key: Annotated[str, doc("Name or path of the secret, as the provider spells it")]
    version: Annotated[int | str | None, doc("Version at `google`, `aws` or `vault`; the newest by default")] = None
    map: Annotated[dict[str, str], doc("Fields of the handle, each with its field in the secret")] = {}
    auth: Annotated[str | None, doc("Name of the keychain entry to sign in with at the provider")] = None


KIND = Kind(
    name="secrets",
    summary="Fetches a secret; the result is a handle that only tool inputs can open",
    inputs=Inputs,
    timeout=60,
)


async def run(inputs: Inputs, context: Context) -> Outcome:
    if context.keychain is None:
        return failed("auth", "secrets: this worker has no keychain")
    if inputs.version is not None and inputs.provider not in ("google", "aws", "vault"):
        return failed("input", f"secrets: {inputs.provider} has no versions; leave `version` out")
    names = inputs.provider, inputs.key, inputs.version, inputs.map, inputs.auth
    return Outcome(result=await context.keychain.handles(*names))
