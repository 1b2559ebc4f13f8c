"""The simulator process of `kind: quantum`. It reads requests and writes responses, one line of JSON each.

The imports take a second and much memory, so a process simulates one circuit after another. The output of the libraries
goes to a file: one of the two parsers of OpenQASM 3 explains its errors only there.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import sys
import tempfile
import time
import warnings
from typing import IO, Any

PR_SET_PDEATHSIG = 1
MEMORY_MB = 2048
"""Enough for the 2 to the power of 27 amplitudes of 27 qubits."""
MAX_COUNTS_BYTES = 50 * 2**20
MAX_MESSAGE_BYTES = 2000
WIDER = "`aer_stabilizer` and `aer_matrix_product_state` simulate wider circuits of some forms"
HINT = "the parser of qiskit itself supports only a part of OpenQASM 3: pip install qiskit-qasm3-import"


class BadCircuit(Exception):
    """The circuit cannot be run; the first argument is the kind of the error."""


def main() -> None:
    parent = int(sys.argv[1])
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the signal was requested
        return
    responses = os.fdopen(os.dup(1), "wb", buffering=0)
    with tempfile.TemporaryFile() as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        for line in sys.stdin.buffer:
            output.seek(0)
            output.truncate()
            try:
                response = _simulate(json.loads(line), output)
                if len(json.dumps(response["counts"])) > MAX_COUNTS_BYTES:
                    limit = f"{MAX_COUNTS_BYTES >> 20} MiB"
                    raise BadCircuit("too_large", f"the counts take more than {limit}: run fewer shots")
            except BadCircuit as error:
                response = {"kind": error.args[0], "message": error.args[1]}
            except Exception as error:  # the libraries raise many kinds of errors
                response = {"kind": "input", "message": f"{type(error).__name__}: {error}"}
            responses.write(json.dumps(response).encode() + b"\n")


def _simulate(request: dict[str, Any], output: IO[bytes]) -> dict[str, Any]:
    import qiskit  # type: ignore[import-untyped]
    import qiskit_aer  # type: ignore[import-untyped]
    from qiskit.exceptions import QiskitError  # type: ignore[import-untyped]
    from qiskit.transpiler.exceptions import CircuitTooWideForTarget  # type: ignore[import-untyped]

    circuit = _read(request["circuit"], request["version"], output)
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


def _read(text: str, version: int, output: IO[bytes]) -> Any:
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warning that it is experimental
        try:
            return qasm3.loads_experimental(text)
        except BaseException as error:  # also a panic of its native code
            output.seek(0)
            message = output.read(MAX_MESSAGE_BYTES).decode(errors="replace").strip() or str(error)[:MAX_MESSAGE_BYTES]
            raise BadCircuit("input", f"the circuit cannot be read: {message} ({HINT})") from None


if __name__ == "__main__":
    main()
