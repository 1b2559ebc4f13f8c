"""kind: iterator. A loop inside a pipeline."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from noetl.model.kind import Kind


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    in_: Annotated[list[Any], Meta(description="Items to loop over")] = field(name="in")
    iterator: Annotated[str, Meta(description="Name of the current item in `iter`")]
    tool: Annotated[
        dict[str, Any] | list[dict[str, Any]], Meta(description="Pipeline for each item: one task or a list")
    ]


KIND = Kind(name="iterator", summary="Runs a pipeline once per item, in the place of one task", inputs=Inputs)
