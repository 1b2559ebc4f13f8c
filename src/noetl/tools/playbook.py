"""kind: playbook. Another playbook as a child execution."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from noetl.model.identity import child_id
from noetl.model.kind import Kind, doc
from noetl.model.outcome import Outcome, failed
from noetl.tools.base import Context


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    path: Annotated[str, doc("Path in the catalog; else that of a playbook in a file beside this one, or the file")]
    version: Annotated[int | str | None, doc("Version in the catalog; the newest if not given")] = None


KIND = Kind(
    name="playbook",
    summary="Runs another playbook with `args` as its payload and gives its result",
    inputs=Inputs,
    outcome="playbook",
)


async def run(inputs: Inputs, context: Context) -> Outcome:
    """Asks for the child and parks until it has ended. Its payload is the task's own args, not the token's."""
    # The front end reads this module too and has no use for the interpreter of pipelines.
    from noetl.pipeline.host import ParkedCall, Waiting

    if not inputs.path:
        return failed("input", "playbook: the path is empty")
    request = {"path": inputs.path, "version": inputs.version, "payload": context.own_args, "step": context.step}
    raise ParkedCall(Waiting("child", child_id(context.action, context.attempt), context.deadline, request))
