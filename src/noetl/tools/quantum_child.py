"""The process that simulates circuits for `kind: quantum`. It reads orders and writes answers, a line of JSON each.

What is imported here takes a second and much memory, so that a process serves one circuit after another. What its
libraries print goes into a file: one of the two readers of OpenQASM 3 explains its errors only there.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import IO, Any

PR_SET_PDEATHSIG = 1
MEMORY_MB = 2048
"""Enough for the 2 to the power of 27 amplitudes of 27 qubits."""
ANSWER_BYTES = 50 * 2**20
NOTES_BYTES = 2000
WIDER = "`aer_stabilizer` and `aer_matrix_product_state` simulate wider circuits of some forms"
HINT = "the reader of qiskit itself knows a part of OpenQASM 3 only: pip install qiskit-qasm3-import"


class BadCircuit(Exception):
    """The circuit can't be run; the first argument is the kind of the error."""


def main() -> None:
    parent = int(sys.argv[1])
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before it could take this process along
        return
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    with tempfile.TemporaryFile() as notes:
        os.dup2(notes.fileno(), 1)
        os.dup2(notes.fileno(), 2)
        for line in sys.stdin.buffer:
            answers.write(json.dumps(_answer(json.loads(line), notes)).encode() + b"\n")


def _answer(order: dict[str, Any], notes: IO[bytes]) -> dict[str, Any]:
    notes.seek(0)
    notes.truncate()
    try:
        answer = _simulate(order, notes)
        if len(json.dumps(answer["counts"])) > ANSWER_BYTES:
            raise BadCircuit("too_large", f"the counts take more than {ANSWER_BYTES >> 20} MiB: run fewer shots")
        return answer
    except BadCircuit as refused:
        return {"kind": refused.args[0], "message": refused.args[1]}
    except Exception as error:  # libraries of this kind raise what they like
        return {"kind": "input", "message": f"{type(error).__name__}: {error}"}


def _simulate(order: dict[str, Any], notes: IO[bytes]) -> dict[str, Any]:
    import platform

    import qiskit  # type: ignore[import-untyped]
    import qiskit_aer  # type: ignore[import-untyped]
    from qiskit.exceptions import QiskitError  # type: ignore[import-untyped]
    from qiskit.transpiler.exceptions import CircuitTooWideForTarget  # type: ignore[import-untyped]

    circuit = _read(order["circuit"], order["version"], notes)
    backend = qiskit_aer.AerSimulator(
        method=order["method"],
        seed_simulator=order["seed"],
        max_memory_mb=MEMORY_MB,
        max_parallel_threads=1,  # the same counts on every machine
    )
    try:
        ready = qiskit.transpile(circuit, backend, optimization_level=0)
    except CircuitTooWideForTarget:
        raise BadCircuit("too_large", f"{circuit.num_qubits} qubits are too many: {WIDER}") from None
    result = backend.run(ready, shots=order["shots"]).result()
    if not result.success:
        status = str(result.results[0].status if result.results else result.status).removeprefix("ERROR: ")
        if "nsufficient memory" in status:
            raise BadCircuit("too_large", f"{circuit.num_qubits} qubits need too much memory: {WIDER}")
        raise BadCircuit("input", status)
    try:
        counts = result.get_counts()
    except QiskitError:
        raise BadCircuit("input", "the circuit measures nothing, so that there is nothing to count") from None
    return {
        "counts": {bits: int(times) for bits, times in sorted(counts.items())},
        "qubits": circuit.num_qubits,
        "method": result.results[0].metadata.get("method"),
        "finished": time.time(),
        "versions": {
            "qiskit": qiskit.__version__,
            "qiskit-aer": qiskit_aer.__version__,
            "python": platform.python_version(),
        },
    }


def _read(text: str, version: int, notes: IO[bytes]) -> Any:
    from qiskit import qasm2

    if version == 3:
        return _read3(text, notes)
    try:
        return qasm2.loads(text, include_path=(), custom_instructions=qasm2.LEGACY_CUSTOM_INSTRUCTIONS)
    except qasm2.QASM2ParseError as error:
        raise BadCircuit("input", f"the circuit can't be read: {error.message}") from None


def _read3(text: str, notes: IO[bytes]) -> Any:
    from qiskit import qasm3
    from qiskit.exceptions import MissingOptionalLibraryError

    try:
        return qasm3.loads(text)
    except MissingOptionalLibraryError:
        return _read_part_of_3(text, qasm3.loads_experimental, notes)
    except qasm3.QASM3ImporterError as error:
        raise BadCircuit("input", f"the circuit can't be read: {error.message}") from None


def _read_part_of_3(text: str, read: Callable[[str], Any], notes: IO[bytes]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is experimental
        try:
            return read(text)
        except BaseException as error:  # also what becomes of a panic in its own code
            notes.seek(0)
            told = notes.read(NOTES_BYTES).decode(errors="replace").strip() or str(error)[:NOTES_BYTES]
            raise BadCircuit("input", f"the circuit can't be read: {told} ({HINT})") from None


if __name__ == "__main__":
    main()
