"""kind: quantum. Jobs on a quantum back end; qiskit Aer simulates one locally."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from noetl.model.kind import Kind
from noetl.tools.fields import Auth


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    operation: Annotated[
        Literal["run", "submit", "poll", "fetch"],
        Meta(description="Run to the end, or submit a job, ask for its state, and fetch its counts"),
    ] = "run"
    backend: Annotated[str, Meta(description="Back end that runs the circuit")] = "aer"
    circuit: Annotated[str | None, Meta(description="Circuit in OpenQASM, for `run` and `submit`")] = None
    parameters: Annotated[dict[str, float], Meta(description="Values of the circuit's parameters, by name")] = {}
    shots: Annotated[int, Meta(ge=1, description="How often the circuit is run")] = 1024
    seed: Annotated[int | None, Meta(description="Seed of the simulator, for the same counts again")] = None
    job: Annotated[str | None, Meta(description="Job that `submit` gave, for `poll` and `fetch`")] = None
    auth: Auth = None


KIND = Kind(
    name="quantum",
    summary="Runs circuits; the result is `{job, state, counts}`",
    inputs=Inputs,
    timeout=3600,
    extra="quantum",
    outcome="quantum",
)
