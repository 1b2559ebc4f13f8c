"""kind: wait. Parks the run until a signal comes."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.model.kind import Kind


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    signal: Annotated[str, Meta(description="Name of the signal to wait for; one sent earlier counts")]


KIND = Kind(
    name="wait",
    summary="Waits for a signal and gives its payload, holding no worker",
    inputs=Inputs,
)
