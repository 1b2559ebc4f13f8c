"""The simulator of `kind: quantum`, in a child process: many circuits in each, since the imports take a second."""

from __future__ import annotations

import os
import platform
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, Any

MEMORY_MB = 2048  # enough for the 2 to the power of 27 amplitudes of 27 qubits
MAX_MESSAGE_BYTES = 2000
WIDER = "`aer_stabilizer` and `aer_matrix_product_state` simulate wider circuits of some forms"
HINT = "the parser of qiskit itself supports only a part of OpenQASM 3: pip install qiskit-qasm3-import"


class BadCircuit(Exception):
    """The circuit cannot be run; the first argument is the kind of the error."""


def simulate(request: dict[str, Any]) -> dict[str, Any]:
    """The counts and where they come from, or the `kind` and `message` of an error."""
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        return _simulate(request)
    except BadCircuit as error:
        return {"kind": error.args[0], "message": error.args[1]}
    except Exception as error:  # the libraries raise many kinds of errors
        return {"kind": "input", "message": f"{type(error).__name__}: {error}"}


def _simulate(request: dict[str, Any]) -> dict[str, Any]:
    import qiskit  # type: ignore[import-untyped]
    import qiskit_aer  # type: ignore[import-untyped]
    from qiskit.exceptions import QiskitError  # type: ignore[import-untyped]
    from qiskit.transpiler.exceptions import CircuitTooWideForTarget  # type: ignore[import-untyped]
    from qiskit_aer.jobs import utils  # type: ignore[import-untyped]

    circuit = _read(request["circuit"], request["version"])
    backend = qiskit_aer.AerSimulator(
        method=request["method"],
        seed_simulator=request["seed"],
        max_memory_mb=MEMORY_MB,
        max_parallel_threads=1,  # the same counts on every machine
    )
    try:
        ready = qiskit.transpile(circuit, backend, optimization_level=0)
    except CircuitTooWideForTarget:
        raise BadCircuit("too_large", f"{circuit.num_qubits} qubits are too many: {WIDER}") from None
    with ThreadPoolExecutor(1) as utils.DEFAULT_EXECUTOR:  # or else its thread stays, and the child is replaced
        result = backend.run(ready, shots=request["shots"]).result()
    if not result.success:
        status = str(result.results[0].status if result.results else result.status).removeprefix("ERROR: ")
        if "nsufficient memory" in status:
            raise BadCircuit("too_large", f"{circuit.num_qubits} qubits need too much memory: {WIDER}")
        raise BadCircuit("input", status)
    try:
        counts = result.get_counts()
    except QiskitError:
        raise BadCircuit("input", "the circuit has no measurement: there is nothing to count") from None
    versions = {"qiskit": qiskit.__version__, "qiskit-aer": qiskit_aer.__version__, "python": platform.python_version()}
    return {
        "counts": {bits: int(times) for bits, times in sorted(counts.items())},
        "qubits": circuit.num_qubits,
        "method": result.results[0].metadata.get("method"),
        "finished": time.time(),
        "versions": versions,
    }


def _read(text: str, version: int) -> Any:
    from qiskit import qasm2, qasm3
    from qiskit.exceptions import MissingOptionalLibraryError

    try:
        if version == 2:
            return qasm2.loads(text, include_path=(), custom_instructions=qasm2.LEGACY_CUSTOM_INSTRUCTIONS)
        return qasm3.loads(text)
    except MissingOptionalLibraryError:
        pass
    except (qasm2.QASM2ParseError, qasm3.QASM3ImporterError) as error:
        raise BadCircuit("input", f"the circuit cannot be read: {error.message}") from None
    with warnings.catch_warnings(), _captured_stdout() as output:
        warnings.simplefilter("ignore")  # the warning that it is experimental
        try:
            return qasm3.loads_experimental(text)
        except BaseException as error:  # also a panic of its native code
            output.seek(0)
            message = output.read(MAX_MESSAGE_BYTES).decode(errors="replace").strip() or str(error)[:MAX_MESSAGE_BYTES]
            raise BadCircuit("input", f"the circuit cannot be read: {message} ({HINT})") from None


@contextmanager
def _captured_stdout() -> Iterator[IO[bytes]]:
    """A file with the output of native code: the second parser of OpenQASM 3 explains its errors only there."""
    stdout = os.dup(1)
    try:
        with tempfile.TemporaryFile() as output:
            os.dup2(output.fileno(), 1)
            yield output
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
