"""kind: iterator. A loop inside a pipeline."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Struct, field

from noetl.model.kind import Kind, doc


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    in_: Annotated[list[Any], doc("Items to loop over")] = field(name="in")
    iterator: Annotated[str, doc("Name of the current item in `iter`")]
    tool: Annotated[dict[str, Any] | list[dict[str, Any]], doc("Pipeline for each item: one task or a list")]


KIND = Kind(name="iterator", summary="Runs a pipeline once per item, in the place of one task", inputs=Inputs)
