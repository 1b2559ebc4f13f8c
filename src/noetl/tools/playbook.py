"""kind: playbook. Another playbook as a child execution."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.model.kind import Kind


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    path: Annotated[
        str, Meta(description="Path in the catalog, else a file relative to the playbook that asks for it")
    ]
    version: Annotated[
        int | str | None, Meta(description="Version in the catalog; the newest if not given")
    ] = None


KIND = Kind(
    name="playbook",
    summary="Runs another playbook with `args` as its payload and gives its result",
    inputs=Inputs,
    outcome="playbook",
)
