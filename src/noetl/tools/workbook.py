"""kind: workbook. A named task of the playbook's workbook, with args of its own."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from noetl.model.kind import Kind, doc


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    name: Annotated[str, doc("Task of the workbook to run")]


KIND = Kind(name="workbook", summary="Runs a named task of the playbook's workbook", inputs=Inputs)
