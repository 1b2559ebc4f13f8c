"""kind: noop. Calls nothing: a place for a policy, a patch or a value."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Struct

from noetl.model.kind import Kind, doc
from noetl.model.outcome import Outcome
from noetl.tools.base import Context


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    result: Annotated[Any, doc("Value to give; without it the previous task's result passes through")] = UNSET


KIND = Kind(name="noop", summary="Does nothing, so that rules can patch, jump or give a value", inputs=Inputs)


async def run(inputs: Inputs, context: Context) -> Outcome:
    return Outcome(result=context.prev if inputs.result is UNSET else inputs.result)
