"""Jobs of `kind: quantum`: their handles and circuits. Children of the pool of `kind: python` simulate them."""

from __future__ import annotations

import asyncio
import os
import re
from asyncio import AbstractEventLoop
from hashlib import sha256
from math import isfinite
from typing import Any, Literal
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct

from noetl.model.outcome import Failure, Outcome
from noetl.timestamps import rfc3339
from noetl.tools.base import Context, Redact
from noetl.tools.python_child.pool import POOLS
from noetl.tools.quantum import MAX_SHOTS, Inputs

METHODS = {
    "aer": "automatic",
    "aer_statevector": "statevector",
    "aer_stabilizer": "stabilizer",
    "aer_matrix_product_state": "matrix_product_state",
}
MAX_QUBITS = 1000
MAX_CIRCUIT_BYTES = 1 * 2**20
MAX_RESPONSE_BYTES = 50 * 2**20
MAX_ENDED_JOBS = 32
MAX_PROCESSES = 8
JOB_SECONDS = 24 * 3600.0
KILL_SECONDS = 10.0
TRANSIENT = frozenset(["exit_code", "timeout"])
PROGRAM = """import sys
sys.path = [folder for folder in sys.path if folder]
from noetl.tools.quantum_child import simulate
result = simulate(request)"""

TOKEN = r"(?s)//[^\n]*|/\*.*?\*/|\"[^\"]*\"|'[^']*'|\d[\w.]*|[^\W\d]\w*"  # a comment, a string, a number or a name
NAME = r"[^\W\d]\w*"
VERSION = r"OPENQASM\s+([23])(\.\d+)?\s*;"
DECLARED = r"\binput\s+(?:float|angle)\s*(?:\[[^\]]*\])?\s*([^\W\d]\w*)\s*;"
FORMALS = r"\bgate\s+\w+\s*\(([^)]*)\)"
INCLUDE = r"\binclude\s*([\"'][^\"']*[\"'])"
LIBRARIES = frozenset(["qelib1.inc", "stdgates.inc"])
REGISTER = r"\b(?:qreg\s+\w+\s*\[\s*(\d+)\s*\]|qubit\s*\[\s*(\d+)\s*\])"


class JobSpec(Struct, frozen=True):
    """Everything that determines the result of a job, and when it was created."""

    backend: str
    circuit: str
    parameters: dict[str, float]
    shots: int
    seed: int
    created: str

    @property
    def job_id(self) -> str:
        decisive = [self.backend, self.circuit, sorted(self.parameters.items()), self.shots, self.seed]
        return sha256(msgspec.json.encode(decisive)).hexdigest()[:32]

    @property
    def fields(self) -> dict[str, Any]:
        return {"circuit_sha256": sha256(self.circuit.encode()).hexdigest(), **msgspec.to_builtins(self)}

    def head(self, status: str) -> dict[str, Any]:
        return {"job_id": self.job_id, "backend": self.backend, "status": status}


async def perform(inputs: Inputs, context: Context) -> Outcome:
    spec = _spec(inputs, context)
    simulators = _SIMULATORS.setdefault(asyncio.get_running_loop(), Simulators())
    job = simulators.job(spec, context.redact, restart=inputs.operation != "poll")
    if inputs.operation in ("submit", "poll"):
        handle = spec.head(job.status) | spec.fields  # enough to find the job, or to run it again
        if job.error is not None:
            handle["error"] = job.error
        return Outcome(result=handle, extra=_extra(spec, job.status))
    response = await job.wait()
    if "counts" not in response:
        retryable = response.get("retryable", False)
        raise Failure(response["kind"], response["message"], retryable=retryable, extra=_extra(spec, "error"))
    provenance = spec.fields | {name: response[name] for name in ("method", "qubits", "versions")}
    provenance["finished"] = rfc3339(response["finished"])
    result = {"counts": response["counts"], "shots": spec.shots, "provenance": provenance}
    return Outcome(result=spec.head("done") | result, extra=_extra(spec, "done"))


async def close_simulators() -> None:
    if simulators := _SIMULATORS.pop(asyncio.get_running_loop(), None):
        tasks = [job.task for job in simulators.jobs.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=KILL_SECONDS)
        POOLS.close()


def _spec(inputs: Inputs, context: Context) -> JobSpec:
    handle, seed = inputs.job, inputs.seed
    if inputs.circuit is not None:
        if seed is None:
            seed = int.from_bytes(sha256(context.action.encode()).digest()[:4], "big")
        return JobSpec(inputs.backend, inputs.circuit, inputs.parameters, inputs.shots, seed, rfc3339(context.now))
    assert handle is not None
    try:
        spec = msgspec.convert(handle, JobSpec)
    except msgspec.ValidationError as error:
        raise Failure("input", f"`job` is not a result of `submit`: {error}") from None
    valid = spec.backend in METHODS and 1 <= spec.shots <= MAX_SHOTS and 0 <= spec.seed < 2**32
    if not valid or handle.get("job_id") != spec.job_id:
        raise Failure("input", "`job` is not a result of `submit`: it was changed")
    return spec


def _extra(spec: JobSpec, status: str) -> dict[str, Any]:
    return {"quantum": {"job_id": spec.job_id, "status": status}}


def _request(spec: JobSpec) -> dict[str, Any]:
    if len(spec.circuit.encode()) > MAX_CIRCUIT_BYTES:
        raise Failure("too_large", f"the circuit has more than {MAX_CIRCUIT_BYTES >> 20} MiB of text")
    circuit = without_comments(spec.circuit)
    version = re.search(VERSION, circuit)
    if version is None:
        raise Failure("input", "the circuit must begin with `OPENQASM 2.0;` or `OPENQASM 3.0;`")
    for name in re.findall(INCLUDE, circuit):
        if name[1:-1] not in LIBRARIES:
            raise Failure("input", f"the circuit includes {name}; it may include {' and '.join(sorted(LIBRARIES))}")
    qubits = sum(int(size) for pair in re.findall(REGISTER, circuit) for size in pair if size)
    if qubits > MAX_QUBITS:
        raise Failure("too_large", f"the circuit has {qubits} qubits; simulators support {MAX_QUBITS} at most")
    return {
        "circuit": bound(circuit, spec.parameters),
        "version": int(version[1]),
        "method": METHODS[spec.backend],
        "shots": spec.shots,
        "seed": spec.seed,
    }


def bound(circuit: str, parameters: dict[str, float]) -> str:
    """The circuit with values in place of its parameters, and the same line numbers."""
    for name, value in parameters.items():
        if not isfinite(value):
            raise Failure("input", f"the parameter {name!r} cannot be {value}")
        if not re.fullmatch(NAME, name) or name in ("pi", "U", "CX"):
            raise Failure("input", f"{name!r} cannot be the name of a parameter")
        if any(name in re.findall(NAME, formals) for formals in re.findall(FORMALS, circuit)):
            raise Failure("input", f"a gate of the circuit has a parameter {name!r} of its own: rename one of them")
    if missing := [name for name in re.findall(DECLARED, circuit) if name not in parameters]:
        raise Failure("input", f"the circuit's parameter {missing[0]!r} has no value: give it in `parameters`")
    circuit = re.sub(DECLARED, lambda match: "\n" * match[0].count("\n"), circuit)
    if unused := sorted(parameters.keys() - set(re.findall(TOKEN, circuit))):
        raise Failure("input", f"the circuit has no parameter {', '.join(map(repr, unused))}")
    values = {name: f"({float(value)!r})" if value < 0 else repr(float(value)) for name, value in parameters.items()}
    return re.sub(TOKEN, lambda match: values.get(match[0], match[0]), circuit)


def without_comments(text: str) -> str:
    """The text with the line ends of its comments, so that line numbers stay."""
    return re.sub(TOKEN, lambda match: "\n" * match[0].count("\n") if match[0][:2] in ("//", "/*") else match[0], text)


class Simulation:
    def __init__(self, slots: asyncio.Semaphore, request: dict[str, Any], redact: Redact) -> None:
        self.status: Literal["queued", "running", "done", "error"] = "queued"
        self.error: dict[str, Any] | None = None
        self.waiting = 0
        self.task = asyncio.ensure_future(self._run(slots, request, redact))

    async def _run(self, slots: asyncio.Semaphore, request: dict[str, Any], redact: Redact) -> dict[str, Any]:
        async with slots:
            self.status = "running"
            try:
                async with asyncio.timeout(JOB_SECONDS):  # for a job that no call waits for
                    response = await _simulate(request, redact)
            except TimeoutError:
                message = f"the simulation took more than {JOB_SECONDS / 3600:g} hours"
                response = {"kind": "timeout", "message": message}
        self.status = "done" if "counts" in response else "error"
        if self.status == "error":
            self.error = {"kind": response["kind"], "message": response["message"]}
        return response

    async def wait(self) -> dict[str, Any]:
        """The response of the simulator. When the last waiting call is cancelled, so is the job."""
        self.waiting += 1
        try:
            return await asyncio.shield(self.task)
        except asyncio.CancelledError:
            if self.waiting == 1 and not self.task.done():
                self.task.cancel()
                await asyncio.wait((self.task,), timeout=KILL_SECONDS)
            raise
        finally:
            self.waiting -= 1


class Simulators:
    def __init__(self) -> None:
        self.slots = asyncio.Semaphore(min(len(os.sched_getaffinity(0)), MAX_PROCESSES))
        self.jobs: dict[str, Simulation] = {}

    def job(self, spec: JobSpec, redact: Redact, *, restart: bool) -> Simulation:
        """The job of that specification, started if it is unknown; `restart` also after a transient error."""
        request, job = _request(spec), self.jobs.pop(spec.job_id, None)
        transient = job is not None and job.error is not None and job.error["kind"] in TRANSIENT
        if job is None or job.task.cancelling() or (restart and transient):
            job = Simulation(self.slots, request, redact)
        self.jobs[spec.job_id] = job
        ended = [name for name, other in self.jobs.items() if other.task.done()]
        for name in ended[:-MAX_ENDED_JOBS]:
            del self.jobs[name]
        return job


async def _simulate(request: dict[str, Any], redact: Redact) -> dict[str, Any]:
    args = {"request": request}
    call = {"code": PROGRAM, "libs": (), "args": args, "action": "", "auth": None, "file": "<quantum>", "line": 1}
    frame = msgspec.json.encode({**call, "paths": [[], []]})
    try:
        _, content = await POOLS.get().call("quantum", {}, frame, lambda stream, line: None, redact)
    except Failure as died:
        return {"kind": "exit_code", "message": f"the simulation failed: {died}", "retryable": True}
    if len(content) > MAX_RESPONSE_BYTES:
        limit = f"{MAX_RESPONSE_BYTES >> 20} MiB"
        return {"kind": "too_large", "message": f"the counts take more than {limit}: run fewer shots"}
    return msgspec.json.decode(content, type=dict[str, Any])


_SIMULATORS: WeakKeyDictionary[AbstractEventLoop, Simulators] = WeakKeyDictionary()
