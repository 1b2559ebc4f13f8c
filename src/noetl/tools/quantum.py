"""kind: quantum. Jobs on a quantum back end; qiskit Aer simulates one locally.

`submit`, `poll` and `fetch` are the parts of `run`, for long jobs. A job lives in the result of `submit`: it has
all that determines a simulation (circuit, parameters, shots, seed), and its id is their hash. A worker that does not
know the job starts it again and gets the same counts; nothing is stored on disk. Without a seed one is derived from the
action id, so a call that is repeated after a crash gets the same counts, too.

Simulations run in processes of their own with one thread each, at most as many as there are processors. A cancelled
call kills the process of its job, unless another call waits for the same job.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from noetl.model.kind import Kind, OperationInputs, doc
from noetl.model.operations import check_operation
from noetl.model.outcome import Outcome
from noetl.tools.base import Context, missing_driver

MAX_SHOTS = 1_000_000


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    operation: Annotated[
        Literal["run", "submit", "poll", "fetch"],
        doc("Run to the end, or submit a job, poll its status, and fetch its counts"),
    ] = "run"
    backend: Annotated[
        Literal["aer", "aer_statevector", "aer_stabilizer", "aer_matrix_product_state"],
        doc("Back end that runs the circuit; `aer` chooses the simulation method"),
    ] = "aer"
    circuit: Annotated[str | None, doc("Circuit in OpenQASM 2 or 3, for `run` and `submit`")] = None
    parameters: Annotated[dict[str, float], doc("Values of the circuit's parameters, by name")] = {}
    shots: Annotated[Annotated[int, Meta(ge=1, le=MAX_SHOTS)], doc("Number of shots, at most a million")] = 1024
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=2**32 - 1)] | None,
        doc("Seed of the simulator, for reproducible counts; derived from the action id by default"),
    ] = None
    job: Annotated[dict[str, Any] | None, doc("Result of `submit` or `poll`, for `poll` and `fetch`")] = None


KIND = Kind(
    name="quantum",
    summary="Runs circuits; the result is `{job_id, backend, status, counts, shots, provenance}`",
    inputs=Inputs,
    timeout=3600,
    extra="quantum",
    outcome="quantum",
    operations={
        "run": OperationInputs.of("parameters", "seed", needs=("circuit",)),
        "submit": OperationInputs.of("parameters", "seed", needs=("circuit",)),
        "poll": OperationInputs.of(needs=("job",)),
        "fetch": OperationInputs.of(needs=("job",)),
    },
)


async def run(inputs: Inputs, context: Context) -> Outcome:
    from importlib.util import find_spec

    if find_spec("qiskit") is None or find_spec("qiskit_aer") is None:
        return missing_driver(KIND.name, "quantum")
    from noetl.tools.quantum_jobs import perform

    check_operation(KIND, inputs)
    return await perform(inputs, context)


async def close() -> None:
    from noetl.tools.quantum_jobs import close_simulators

    await close_simulators()
