"""kind: wait. Parks the run until a signal arrives."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from noetl.model.kind import Kind, doc
from noetl.model.outcome import Outcome, failed
from noetl.tools.base import Context

SignalName: TypeAlias = Annotated[str, Meta(min_length=1)]


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    signal: Annotated[SignalName | None, doc("Name of the signal to wait for; one sent earlier counts")] = None
    signals: Annotated[
        Annotated[list[SignalName], Meta(min_length=1)] | None,
        doc("Names of signals; the first to arrive ends the wait; the result is {signal, payload}"),
    ] = None


KIND = Kind(
    name="wait",
    summary="Waits for a signal and returns its payload, without occupying a worker",
    inputs=Inputs,
    outcome="actor",
    one_of=(("signal", "signals"),),
)


async def run(inputs: Inputs, context: Context) -> Outcome:
    """Parks until a signal arrives, for ever without a `spec.timeout`. The engine makes the outcome."""
    # The front end reads this module too and has no use for the interpreter of pipelines.
    from noetl.pipeline.host import ParkedCall, Waiting

    names = [inputs.signal or ""] if inputs.signals is None else inputs.signals
    if any(context.redact(name) != name for name in names):
        return failed("input", "wait: the name of the signal contains a secret, which its sender would have to know")
    if inputs.signals is None:
        raise ParkedCall(Waiting("signal", names[0], context.deadline))
    raise ParkedCall(Waiting("signal", due=context.deadline, keys=tuple(names)))
