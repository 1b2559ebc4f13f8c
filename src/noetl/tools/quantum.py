"""kind: quantum. Jobs on a quantum back end; qiskit Aer simulates one locally.

`run` does all at once. `submit`, `poll` and `fetch` are its parts, for jobs that take long: a rule polls until `status`
is `done`.

Where does a job live between them? In what `submit` gave. A simulation is decided by circuit, parameters, shots and
seed, all of which the handle holds, and its id is their hash. The process that submitted starts to work at once. A
worker that has never heard of the job, be it another one or this one after a crash, starts it again and comes to
the same counts. Nothing is kept on disk. Without a seed one follows from the action id, so a call that is repeated
after a crash counts the same too.

Circuits are OpenQASM 2 or 3. A name in `parameters` is replaced by its value wherever the circuit uses it; in OpenQASM
3 it may be declared (`input float[64] theta;`).

Simulations run in processes of their own, one thread each, no more at once than there are processors. A call that is
cancelled kills the process of its job, unless somebody else waits for the same job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Meta, Struct

from noetl.model.kind import Kind
from noetl.model.outcome import Outcome
from noetl.timestamps import rfc3339
from noetl.tools.base import Context, Failure, missing_driver

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Semaphore, Task, TimerHandle
    from asyncio.subprocess import Process

METHODS = {
    "aer": "automatic",
    "aer_statevector": "statevector",
    "aer_stabilizer": "stabilizer",
    "aer_matrix_product_state": "matrix_product_state",
}
"""The back ends, and the method of simulation of each."""
MAX_QUBITS = 1000
MAX_SHOTS = 1_000_000
CIRCUIT_BYTES = 1 * 2**20
ANSWER_BYTES = 64 * 2**20
KEPT_JOBS = 32
"""Jobs that are over and remembered; one that is forgotten is simulated again when somebody asks."""
MOST_CHILDREN = 8
JOB_SECONDS = 24 * 3600.0
IDLE_SECONDS = 60.0
DEATH_SECONDS = 10.0
PASSING = frozenset(["exit_code", "timeout"])
"""Kinds of errors that the same job need not have again."""

# A comment, a text, a number, a name; a name is only a name where it is none of the others.
TOKEN = r"//[^\n]*|/\*.*?\*/|\"[^\"]*\"|'[^']*'|\d[\w.]*|[^\W\d]\w*"
NAME = r"[^\W\d]\w*"
VERSION = r"OPENQASM\s+([23])(\.\d+)?\s*;"
DECLARED = r"\binput\s+(?:float|angle)\s*(?:\[[^\]]*\])?\s*([^\W\d]\w*)\s*;"
FORMALS = r"\bgate\s+\w+\s*\(([^)]*)\)"
INCLUDE = r"\binclude\s*([\"'][^\"']*[\"'])"
LIBRARIES = frozenset(["qelib1.inc", "stdgates.inc"])
REGISTER = r"\b(?:qreg\s+\w+\s*\[\s*(\d+)\s*\]|qubit\s*\[\s*(\d+)\s*\])"


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    operation: Annotated[
        Literal["run", "submit", "poll", "fetch"],
        Meta(description="Run to the end, or submit a job, ask for its status, and fetch its counts"),
    ] = "run"
    backend: Annotated[
        Literal["aer", "aer_statevector", "aer_stabilizer", "aer_matrix_product_state"],
        Meta(description="Back end that runs the circuit; `aer` chooses the method of simulation itself"),
    ] = "aer"
    circuit: Annotated[str | None, Meta(description="Circuit in OpenQASM 2 or 3, for `run` and `submit`")] = None
    parameters: Annotated[
        dict[str, float], Meta(description="Values of the circuit's parameters, by the names it uses for them")
    ] = {}
    shots: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_SHOTS)], Meta(description="How often the circuit is run, at most a million")
    ] = 1024
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=2**32 - 1)] | None,
        Meta(description="Seed of the simulator, for the same counts again; follows from the action id if not given"),
    ] = None
    job: Annotated[dict[str, Any] | None, Meta(description="What `submit` or `poll` gave, for `poll` and `fetch`")] = (
        None
    )


KIND = Kind(
    name="quantum",
    summary="Runs circuits; the result is `{job_id, backend, status, counts, shots, provenance}`",
    inputs=Inputs,
    timeout=3600,
    extra="quantum",
    outcome="quantum",
)


class Spec(Struct, frozen=True):
    """All that decides what a job comes to, and when it was made."""

    backend: str
    circuit: str
    parameters: dict[str, float]
    shots: int
    seed: int
    created: str

    @property
    def job_id(self) -> str:
        from hashlib import sha256

        decisive = [self.backend, self.circuit, sorted(self.parameters.items()), self.shots, self.seed]
        return sha256(msgspec.json.encode(decisive)).hexdigest()[:32]

    def handle(self, status: str) -> dict[str, Any]:
        """The job as playbooks see it: enough to find it, or else to run it again."""
        head = {"job_id": self.job_id, "backend": self.backend, "status": status}
        return head | {"circuit_sha256": self.circuit_sha256, **msgspec.to_builtins(self)}

    @property
    def circuit_sha256(self) -> str:
        from hashlib import sha256

        return sha256(self.circuit.encode()).hexdigest()


async def run(inputs: Inputs, context: Context) -> Outcome:
    """One operation on a job."""
    from importlib.util import find_spec

    if find_spec("qiskit") is None or find_spec("qiskit_aer") is None:
        return missing_driver(KIND.name, "quantum")
    try:
        _check(inputs)
        spec = _spec(inputs, context) if inputs.job is None else _from_handle(inputs.job)
        order = _order(spec)
        job = _bench().job(spec, order, again=inputs.operation != "poll")
        if inputs.operation in ("submit", "poll"):
            return _told(spec, job)
        return _fetched(spec, await job.wait())
    except Failure as failure:
        return failure.outcome


async def close() -> None:
    """End all simulations of the running event loop."""
    import asyncio

    bench = _BENCHES.pop(asyncio.get_running_loop(), None)
    if bench is not None:
        await bench.close()


# -- jobs in words ----------------------------------------------------------------------------------------------------


def _check(inputs: Inputs) -> None:
    operation = inputs.operation
    if operation in ("poll", "fetch"):
        if inputs.job is None:
            raise Failure("input", f"operation {operation} needs a `job`")
        if inputs.circuit is not None or inputs.parameters or inputs.seed is not None:
            raise Failure("input", f"operation {operation} takes only a `job`, which has the circuit and all the rest")
    elif inputs.circuit is None:
        raise Failure("input", f"operation {operation} needs a `circuit`")
    elif inputs.job is not None:
        raise Failure("input", f"operation {operation} takes no `job`: it makes one")


def _spec(inputs: Inputs, context: Context) -> Spec:
    from hashlib import sha256

    seed = inputs.seed
    if seed is None:
        seed = int.from_bytes(sha256(context.action.encode()).digest()[:4], "big")
    assert inputs.circuit is not None
    return Spec(inputs.backend, inputs.circuit, inputs.parameters, inputs.shots, seed, _moment(context.now))


def _from_handle(handle: dict[str, Any]) -> Spec:
    try:
        spec = msgspec.convert(handle, Spec)
    except msgspec.ValidationError as error:
        raise Failure("input", f"`job` is not what `submit` gave: {error}") from None
    known = spec.backend in METHODS and 1 <= spec.shots <= MAX_SHOTS and 0 <= spec.seed < 2**32
    if not known or handle.get("job_id") != spec.job_id:
        raise Failure("input", "`job` is not what `submit` gave: it was changed on the way")
    return spec


def _told(spec: Spec, job: Job) -> Outcome:
    handle = spec.handle(job.status)
    if job.fault is not None:
        handle["error"] = job.fault
    return Outcome(result=handle, extra={"quantum": {"job_id": spec.job_id, "status": job.status}})


def _fetched(spec: Spec, answer: dict[str, Any]) -> Outcome:
    if "counts" not in answer:
        extra = {"quantum": {"job_id": spec.job_id, "status": "error"}}
        raise Failure(answer["kind"], answer["message"], retryable=answer.get("retryable", False), extra=extra)
    provenance = {
        "circuit": spec.circuit,
        "circuit_sha256": spec.circuit_sha256,
        "parameters": spec.parameters,
        "backend": spec.backend,
        "method": answer["method"],
        "qubits": answer["qubits"],
        "shots": spec.shots,
        "seed": spec.seed,
        "versions": answer["versions"],
        "created": spec.created,
        "finished": _moment(answer["finished"]),
    }
    head = {"job_id": spec.job_id, "backend": spec.backend, "status": "done"}
    result = {**head, "counts": answer["counts"], "shots": spec.shots, "provenance": provenance}
    return Outcome(result=result, extra={"quantum": {"job_id": spec.job_id, "status": "done"}})


def _moment(at: float) -> str:
    return rfc3339(at)


# -- circuits ---------------------------------------------------------------------------------------------------------


def _order(spec: Spec) -> dict[str, Any]:
    """What the simulator is told; refuses what can be known to be wrong."""
    if len(spec.circuit.encode()) > CIRCUIT_BYTES:
        raise Failure("too_large", f"the circuit has more than {CIRCUIT_BYTES >> 20} MiB of text")
    circuit = _without_comments(spec.circuit)
    version = re.search(VERSION, circuit)
    if version is None:
        raise Failure("input", "the circuit must begin with `OPENQASM 2.0;` or `OPENQASM 3.0;`")
    for name in re.findall(INCLUDE, circuit):
        if name[1:-1] not in LIBRARIES:
            raise Failure("input", f"the circuit includes {name}; it may include {' and '.join(sorted(LIBRARIES))}")
    qubits = sum(int(size) for pair in re.findall(REGISTER, circuit) for size in pair if size)
    if qubits > MAX_QUBITS:
        raise Failure("too_large", f"the circuit has {qubits} qubits; simulators take {MAX_QUBITS} at most")
    return {
        "circuit": bound(circuit, spec.parameters),
        "version": int(version[1]),
        "method": METHODS[spec.backend],
        "shots": spec.shots,
        "seed": spec.seed,
    }


def bound(circuit: str, parameters: dict[str, float]) -> str:
    """The circuit with values in the place of its parameters. No line moves: errors name lines."""
    for name in parameters:
        if not re.fullmatch(NAME, name) or name in ("pi", "U", "CX"):
            raise Failure("input", f"{name!r} can't be the name of a parameter")
        if any(name in re.findall(NAME, formals) for formals in re.findall(FORMALS, circuit)):
            raise Failure("input", f"a gate of the circuit has a parameter {name!r} of its own: rename one of them")
    if missing := [name for name in re.findall(DECLARED, circuit) if name not in parameters]:
        raise Failure("input", f"the circuit's parameter {missing[0]!r} has no value: give it in `parameters`")
    pieces = list(_pieces(re.sub(DECLARED, _line_breaks, circuit)))
    if unused := sorted(parameters.keys() - set(pieces)):
        raise Failure("input", f"the circuit has no parameter {', '.join(map(repr, unused))}")
    return "".join(_number(parameters[piece]) if piece in parameters else piece for piece in pieces)


def _without_comments(text: str) -> str:
    return "".join("\n" * piece.count("\n") if piece.startswith(("//", "/*")) else piece for piece in _pieces(text))


def _line_breaks(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces, in order: comments, texts, numbers and names each by itself, and what lies between."""
    end = 0
    for found in re.finditer(TOKEN, text, re.DOTALL):
        yield text[end : found.start()]
        yield found[0]
        end = found.end()
    yield text[end:]


def _number(value: float) -> str:
    from math import isfinite

    if not isfinite(value):
        raise Failure("input", f"a parameter can't be {value}")
    text = repr(float(value))
    return f"({text})" if value < 0 else text


# -- jobs at work -----------------------------------------------------------------------------------------------------


class Job:
    """A simulation on its way, and those who wait for it."""

    def __init__(self, bench: Bench, order: dict[str, Any]) -> None:
        import asyncio

        self.bench = bench
        self.status: Literal["queued", "running", "done", "error"] = "queued"
        self.fault: dict[str, Any] | None = None
        self.waiting = 0
        self.task: Task[dict[str, Any]] = asyncio.ensure_future(self._simulate(order))

    async def _simulate(self, order: dict[str, Any]) -> dict[str, Any]:
        async with self.bench.places:
            self.status = "running"
            answer = await self._limited(order)
        self.status = "done" if "counts" in answer else "error"
        if "counts" not in answer:
            self.fault = {"kind": answer["kind"], "message": answer["message"]}
        return answer

    async def _limited(self, order: dict[str, Any]) -> dict[str, Any]:
        """A job that was submitted and forgotten ends too."""
        import asyncio

        try:
            async with asyncio.timeout(JOB_SECONDS):
                return await self.bench.simulate(order)
        except TimeoutError:
            return {"kind": "timeout", "message": f"the simulation took more than {JOB_SECONDS / 3600:g} hours"}

    async def wait(self) -> dict[str, Any]:
        """What the job comes to. When the last one who waits is cancelled, so is the job."""
        import asyncio

        self.waiting += 1
        try:
            return await asyncio.shield(self.task)
        except asyncio.CancelledError:
            if self.waiting == 1 and not self.task.done():
                self.task.cancel()
                await asyncio.wait((self.task,), timeout=DEATH_SECONDS)
            raise
        finally:
            self.waiting -= 1


class Bench:
    """The jobs and simulators of one event loop."""

    def __init__(self) -> None:
        import asyncio
        import os

        self.places: Semaphore = asyncio.Semaphore(min(len(os.sched_getaffinity(0)), MOST_CHILDREN))
        self.jobs: dict[str, Job] = {}
        self.idle: list[tuple[Process, TimerHandle]] = []

    def job(self, spec: Spec, order: dict[str, Any], *, again: bool) -> Job:
        """The job of that specification, started if it is not known; `again` also if its process died."""
        job = self.jobs.pop(spec.job_id, None)
        passing = job is not None and job.fault is not None and job.fault["kind"] in PASSING
        if job is None or job.task.cancelling() or (again and passing):
            job = Job(self, order)
        self.jobs[spec.job_id] = job
        over = [name for name, one in self.jobs.items() if one.task.done()]
        for name in over[:-KEPT_JOBS]:
            del self.jobs[name]
        return job

    async def simulate(self, order: dict[str, Any]) -> dict[str, Any]:
        """Have one circuit simulated. Cancelling kills the process."""
        try:
            process = await self._child()
        except OSError as error:
            return {"kind": "exit_code", "message": f"no process could be started: {error}", "retryable": True}
        whole = False
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(msgspec.json.encode(order) + b"\n")
            line = await process.stdout.readline()
            if not line.endswith(b"\n"):
                return await self._died(process)
            whole = True
            answer: dict[str, Any] = msgspec.json.decode(line)
            return answer
        finally:
            if whole:
                self._keep(process)
            else:
                await _end(process)

    async def _child(self) -> Process:
        import asyncio
        import os
        import sys

        while self.idle:
            process, timer = self.idle.pop()
            timer.cancel()
            if process.returncode is None:
                return process
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "noetl.tools.quantum_child", str(os.getpid())),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            limit=ANSWER_BYTES,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def _keep(self, process: Process) -> None:
        import asyncio

        timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._retire, process)
        self.idle.append((process, timer))

    def _retire(self, process: Process) -> None:
        self.idle = [kept for kept in self.idle if kept[0] is not process]
        _kill(process)

    async def _died(self, process: Process) -> dict[str, Any]:
        code = await process.wait()
        why = f"was killed by signal {-code}: out of memory?" if code < 0 else f"ended with exit code {code}"
        return {"kind": "exit_code", "message": f"the process of the simulator {why}", "retryable": code < 0}

    async def close(self) -> None:
        import asyncio

        tasks = [job.task for job in self.jobs.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=DEATH_SECONDS)
        for process, timer in self.idle:
            timer.cancel()
            await _end(process)


async def _end(process: Process) -> None:
    """Kill a process and wait until it is gone and its pipes are closed."""
    import asyncio

    _kill(process)
    if process.stdin is not None:
        process.stdin.close()
    wait = asyncio.ensure_future(process.wait())
    await asyncio.wait((wait,), timeout=DEATH_SECONDS)


def _kill(process: Process) -> None:
    from contextlib import suppress

    with suppress(ProcessLookupError):
        process.kill()


_BENCHES: WeakKeyDictionary[AbstractEventLoop, Bench] = WeakKeyDictionary()


def _bench() -> Bench:
    import asyncio

    return _BENCHES.setdefault(asyncio.get_running_loop(), Bench())
