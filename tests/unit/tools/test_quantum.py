"""kind: quantum on qiskit Aer, in the processes that simulate."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from hashlib import sha256
from math import pi
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.servers.tool_call import NOW, Caller, context

from noetl.model.outcome import Failure, Outcome
from noetl.tools import quantum, quantum_jobs
from noetl.tools.python_child import pool

BELL = """\
OPENQASM 3.0;
include "stdgates.inc";
qubit[2] q;
bit[2] c;
h q[0];
cx q[0], q[1];
c = measure q;
"""
TURN = """\
OPENQASM 2.0;
include "qelib1.inc";
qreg q[1];
creg c[1];
rx(theta) q[0];
measure q -> c;
"""
HEAD = 'OPENQASM 2.0; include "qelib1.inc"; '


def long_circuit() -> str:
    """One that takes minutes: a wide state, and many gates on it."""
    gates = "".join(f"rx(0.{n}) q; cx q[{n % 26}], q[{(n + 1) % 26}];\n" for n in range(1, 200))
    return f"{HEAD} qreg q[26]; creg c[26]; h q; {gates} measure q -> c;"


@pytest.fixture
def caller() -> Caller:
    return Caller(quantum)


def bench() -> Any:
    return quantum_jobs._SIMULATORS[asyncio.get_running_loop()]


# -- running ----------------------------------------------------------------------------------------------------------


def test_circuits_are_run_and_tell_where_their_counts_come_from(caller: Caller) -> None:
    async def main() -> None:
        result = (await caller.ask(circuit=BELL, shots=1000, seed=7)).result
        assert set(result["counts"]) == {"00", "11"}
        assert (sum(result["counts"].values()), result["shots"]) == (1000, 1000)
        assert (result["backend"], result["status"]) == ("aer", "done")
        provenance = result["provenance"]
        assert (provenance["circuit"], provenance["circuit_sha256"]) == (BELL, sha256(BELL.encode()).hexdigest())
        assert (provenance["parameters"], provenance["seed"], provenance["shots"], provenance["qubits"]) == (
            {},
            7,
            1000,
            2,
        )
        assert set(provenance["versions"]) == {"qiskit", "qiskit-aer", "python"}
        assert (provenance["created"], provenance["finished"] > provenance["created"]) == (
            "2023-11-14T22:13:20.000Z",
            True,
        )
        assert (await caller.ask(circuit=BELL, shots=1000, seed=8)).result["counts"] != result["counts"]

        turned = await caller.ask(circuit=TURN, parameters={"theta": pi}, shots=100)
        assert (turned.result["counts"], turned.result["provenance"]["parameters"]) == ({"1": 100}, {"theta": pi})
        back = await caller.ask(circuit=TURN, parameters={"theta": -2 * pi}, shots=100)
        assert back.result["counts"] == {"0": 100}

        gate = "gate half(a) x { rx(a/2) x; } qreg q[1]; creg c[1]; half(2*pi) q[0]; measure q -> c; if (c==1) x q[0];"
        assert (await caller.ask(circuit=HEAD + gate, shots=10)).result["counts"] == {"1": 10}

        wide = await caller.ask(
            circuit=f"{HEAD} qreg q[60]; creg c[60]; x q; measure q -> c;", shots=5, backend="aer_stabilizer"
        )
        assert wide.result["counts"] == {"1" * 60: 5}

    caller.whole(main())


def test_the_same_seed_gives_the_same_counts_in_any_process(caller: Caller) -> None:
    async def counts(**inputs: Any) -> Any:
        return (await caller.ask(circuit=TURN, parameters={"theta": 1.0}, **inputs)).result["counts"]

    first = caller.whole(counts(seed=11))
    assert caller.whole(counts(seed=11)) == first
    drawn = caller.whole(counts())
    assert caller.whole(counts()) == drawn  # the action is the same: so it is after a crash
    assert drawn != first


def test_what_is_wrong_with_a_circuit_is_reported(caller: Caller) -> None:
    register = "qreg q[1]; creg c[1];"
    wrong = [
        ("h q[0];", "input", "must begin with `OPENQASM 2.0;`"),
        (f"{HEAD} {register} nope q[0];", "input", "'nope' is not defined"),
        (f"{HEAD} {register} rx(theta) q[0]; measure q -> c;", "input", "'theta' is not"),
        (f"{HEAD} {register} h q[0];", "input", "has no measurement"),
        (f"{HEAD} qreg q[28]; creg c[28]; rx(1) q; measure q -> c;", "too_large", "28 qubits need too much memory"),
        (f"{HEAD} qreg q[50]; creg c[50]; rx(1) q; measure q -> c;", "too_large", "50 qubits are too many"),
        (f"{HEAD} qreg q[900]; qreg r[101];", "too_large", "has 1001 qubits"),
        ("OPENQASM 3.0; nope x;", "input", "the circuit cannot be read"),
        ('OPENQASM 2.0; include "/etc/passwd";', "input", "may include qelib1.inc and stdgates.inc"),
        ("OPENQASM 3.0; include '../x.inc';", "input", "may include qelib1.inc and stdgates.inc"),
        (f"{HEAD}{' ' * 2**20}", "too_large", "more than 1 MiB"),
    ]

    async def main() -> None:
        for circuit, kind, says in wrong:
            error = (await caller.ask(circuit=circuit)).error
            assert error is not None
            assert (error.kind, says in error.message, error.retryable) == (kind, True, False), error.message

    caller.whole(main())


# -- parameters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("circuit", "parameters", "text"),
    [
        ("rx(a) q; ry(2*b) q;", {"a": 0.5, "b": -1}, "rx(0.5) q; ry(2*(-1.0)) q;"),
        ("rx(a+aa-a1) q;", {"a": 1}, "rx(1.0+aa-a1) q;"),
        ("rx(1e5*e5) q;", {"e5": 2}, "rx(1e5*2.0) q;"),
        ('include "a"; rx(a) q;', {"a": 1}, 'include "a"; rx(1.0) q;'),
        ("input float[64] a;\ninput angle\n b ; rx(a) q; ry(b) q;", {"a": 1, "b": 2}, "\n\n rx(1.0) q; ry(2.0) q;"),
        ("input float ä; rx(ä) q;", {"ä": 1e-9}, " rx(1e-09) q;"),
        ("rx(a) q;", {"a": 1}, "rx(1.0) q;"),
    ],
    ids=["values", "whole names", "numbers", "texts", "declared", "letters", "plain"],
)
def test_parameters_are_bound_by_name(circuit: str, parameters: dict[str, float], text: str) -> None:
    assert quantum_jobs.bound(circuit, parameters) == text


def test_comments_are_no_place_for_parameters() -> None:
    text = "// input float a;\nrx(b) q; /* a\n a */ ry(b) q;"
    assert quantum_jobs.bound(quantum_jobs.without_comments(text), {"b": 1}) == "\nrx(1.0) q; \n ry(1.0) q;"


@pytest.mark.parametrize(
    ("circuit", "parameters", "says"),
    [
        ("rx(a) q;", {"a": 1, "b": 2}, "has no parameter 'b'"),
        ("input float a; rx(a) q;", {}, "parameter 'a' has no value"),
        ("gate g(a) x { rx(a) x; } g(a) q;", {"a": 1}, "rename one of them"),
        ("rx(pi) q;", {"pi": 3}, "cannot be the name of a parameter"),
        ("rx(a) q;", {"a b": 3}, "cannot be the name of a parameter"),
        ("rx(a) q;", {"a": float("nan")}, "cannot be nan"),
        ("rx(a) q;", {"a": float("inf")}, "cannot be inf"),
    ],
)
def test_parameters_that_do_not_fit(circuit: str, parameters: dict[str, float], says: str) -> None:
    with pytest.raises(Failure, match=says):
        quantum_jobs.bound(circuit, parameters)


# -- jobs -------------------------------------------------------------------------------------------------------------


async def until(caller: Caller, handle: Any, *statuses: str) -> Any:
    while True:
        polled = (await caller.ask(operation="poll", job=handle)).result
        if polled["status"] in statuses:
            return polled
        await asyncio.sleep(0.01)


def test_a_job_is_submitted_polled_and_fetched(caller: Caller) -> None:
    async def main() -> None:
        submitted = await caller.ask(operation="submit", circuit=TURN, parameters={"theta": 1}, shots=50, seed=3)
        handle = submitted.result
        assert handle["status"] in ("queued", "running")
        assert submitted.extra == {"quantum": {"job_id": handle["job_id"], "status": handle["status"]}}
        polled = await until(caller, handle, "done")
        assert polled == handle | {"status": "done"}
        fetched = (await caller.ask(operation="fetch", job=polled)).result
        assert fetched == (await caller.ask(operation="fetch", job=handle)).result
        run = (await caller.ask(circuit=TURN, parameters={"theta": 1}, shots=50, seed=3)).result
        assert fetched == run
        assert fetched["job_id"] == handle["job_id"]

    caller.whole(main())


def test_a_job_outlives_the_process_that_took_it(caller: Caller) -> None:
    """The handle alone is enough, after it has been through the log."""

    async def submit() -> Outcome:
        return await caller.ask(operation="submit", circuit=TURN, parameters={"theta": 1}, seed=3)

    handle = msgspec.json.decode(msgspec.json.encode(caller.whole(submit()).result))

    async def later() -> Any:
        polled = await caller.ask(context(now=NOW + 100), operation="poll", job=handle)
        assert polled.result["status"] in ("queued", "running")
        return (await caller.ask(context(now=NOW + 200), operation="fetch", job=handle)).result

    fetched = caller.whole(later())
    assert fetched["provenance"]["created"] == handle["created"]
    assert fetched["counts"] == caller.result(circuit=TURN, parameters={"theta": 1}, seed=3)["counts"]


def test_a_job_that_cannot_be_run_reports_it(caller: Caller) -> None:
    async def main() -> None:
        handle = (await caller.ask(operation="submit", circuit=f"{HEAD} nope;")).result
        polled = await until(caller, handle, "error")
        assert polled["error"]["kind"] == "input"
        assert "'nope' is not defined" in polled["error"]["message"]
        fetched = await caller.ask(operation="fetch", job=handle)
        assert fetched.error is not None
        assert (fetched.error.kind, fetched.error.message) == ("input", polled["error"]["message"])
        assert fetched.extra["quantum"] == {"job_id": handle["job_id"], "status": "error"}

    caller.whole(main())


def test_no_more_jobs_run_at_once_than_there_are_processors(caller: Caller) -> None:
    async def main() -> None:
        count = len(os.sched_getaffinity(0)) + 3
        asked = ({"circuit": TURN, "parameters": {"theta": float(n)}, "shots": 10} for n in range(count))
        handles = [(await caller.ask(operation="submit", **one)).result for one in asked]
        running = [(await caller.ask(operation="poll", job=handle)).result["status"] for handle in handles]
        assert running.count("running") <= len(os.sched_getaffinity(0))
        results = await asyncio.gather(*(caller.ask(operation="fetch", job=handle) for handle in handles))
        assert all(result.ok for result in results)
        assert 1 <= len(children()) <= len(os.sched_getaffinity(0))

    caller.whole(main())


def test_jobs_that_are_over_are_forgotten_in_the_end(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantum_jobs, "MAX_ENDED_JOBS", 2)

    async def main() -> None:
        handles = []
        for seed in range(5):
            handles.append((await caller.ask(operation="submit", circuit=BELL, seed=seed)).result)
            await caller.ask(operation="fetch", job=handles[-1])
        assert len(bench().jobs) <= 3
        assert (await caller.ask(operation="fetch", job=handles[0])).ok

    caller.whole(main())


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"operation": "run"}, "needs `circuit`"),
        ({"operation": "submit"}, "needs `circuit`"),
        ({"operation": "submit", "circuit": BELL, "job": {}}, "takes no `job`"),
        ({"operation": "poll"}, "needs `job`"),
        ({"operation": "fetch", "job": {}, "circuit": BELL}, "takes no `circuit`"),
        ({"operation": "fetch", "job": {"job_id": "x"}}, "is not a result of `submit`"),
    ],
)
def test_inputs_that_make_no_sense(caller: Caller, inputs: dict[str, Any], says: str) -> None:
    kind, message, _ = caller.error(**inputs)
    assert (kind, says in message) == ("input", True)


@pytest.mark.parametrize("change", [{"shots": 10**9}, {"backend": "ibm"}, {"seed": 4}, {"job_id": "x"}], ids=str)
def test_a_handle_that_was_changed(caller: Caller, change: dict[str, Any]) -> None:
    async def main() -> None:
        handle = (await caller.ask(operation="submit", circuit=BELL, seed=3)).result
        outcome = await caller.ask(operation="fetch", job=handle | change)
        assert outcome.error is not None
        assert (outcome.error.kind, "it was changed" in outcome.error.message) == ("input", True)

    caller.whole(main())


# -- ends -------------------------------------------------------------------------------------------------------------


def children() -> list[int]:
    """The simulators that this process has: the children of its zygote."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat, command = (folder / "stat").read_text(), (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if b"program.Runner" in command:  # of the zygote, and of the children that it forks
                parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    return [process for process, parent in parents.items() if parents.get(parent) == os.getpid()]


async def child() -> int:
    while True:
        if result := children():
            return result[0]
        await asyncio.sleep(0.01)


def maps(process: int) -> bytes:
    return Path(f"/proc/{process}/maps").read_bytes()


def environment(process: int) -> bytes:
    return Path(f"/proc/{process}/environ").read_bytes()


@pytest.mark.parametrize("operation", ["run", "fetch"])
def test_cancelling_kills_the_simulation(caller: Caller, operation: str) -> None:
    async def main() -> None:
        asked: dict[str, Any] = {"circuit": long_circuit()}
        if operation == "fetch":
            asked = {"job": (await caller.ask(operation="submit", **asked)).result}
        call = asyncio.create_task(caller.ask(operation=operation, **asked))
        await child()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert children() == []
        assert (await caller.ask(circuit=BELL)).ok

    caller.whole(main())


def test_a_simulator_does_not_get_the_secrets_of_the_worker(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_MASTER_KEY", "key-of-the-worker")
    monkeypatch.setenv("CLOUD_TOKEN", "token-of-the-worker")

    async def main() -> None:
        call = asyncio.create_task(caller.ask(circuit=long_circuit()))
        process = await child()
        while b"qiskit_aer" not in maps(process):  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.01)
        variables, threads = environment(process), len(os.listdir(f"/proc/{process}/task"))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert threads <= 2  # with that of the job; OpenMP and BLAS have none
        assert b"of-the-worker" not in variables

    caller.whole(main())


def test_a_job_continues_while_somebody_else_waits_for_it(caller: Caller) -> None:
    async def main() -> None:
        asked = {"circuit": TURN, "parameters": {"theta": 1.0}, "seed": 5}
        calls = [asyncio.create_task(caller.ask(**asked)) for _ in range(3)]
        await child()
        calls[0].cancel()
        assert (await calls[1]).result == (await calls[2]).result

    caller.whole(main())


def test_a_simulator_that_dies_is_reported_and_replaced(caller: Caller) -> None:
    async def main() -> None:
        handle = (await caller.ask(operation="submit", circuit=long_circuit())).result
        os.kill(await child(), signal.SIGKILL)
        polled = await until(caller, handle, "error")
        assert polled["error"] == {
            "kind": "exit_code",
            "message": "the simulation failed: the process was killed by SIGKILL (signal 9): "
            "out of memory, or killed from outside",
        }
        assert (await caller.ask(operation="poll", job=handle)).result["status"] == "error"
        again = await caller.ask(operation="submit", circuit=long_circuit())
        assert again.result["status"] in ("queued", "running")
        assert (await caller.ask(circuit=BELL)).ok

    caller.whole(main())


def test_a_job_can_be_requested_again_while_it_is_being_killed(caller: Caller) -> None:
    async def main() -> None:
        asked = {"circuit": TURN, "parameters": {"theta": 1.0}, "seed": 5}
        first = asyncio.create_task(caller.ask(**asked))
        await child()
        first.cancel()
        await asyncio.sleep(0)
        assert (await caller.ask(**asked)).ok

    caller.whole(main())


def test_a_simulator_that_is_idle_goes(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "SURPLUS_SECONDS", 0.01)
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.01)

    async def main() -> None:
        assert (await caller.ask(circuit=BELL, seed=1)).ok
        while children():  # noqa: ASYNC110 - no event tells of the end of a process
            await asyncio.sleep(0.01)
        assert (await caller.ask(circuit=BELL, seed=2)).ok

    caller.whole(main())


def test_nothing_is_left_when_the_worker_stops(caller: Caller) -> None:
    async def main() -> None:
        await caller.ask(operation="submit", circuit=long_circuit())
        await child()

    caller.whole(main())
    assert children() == []


SCRIPT = """
import asyncio, sys
import msgspec
from tests.servers.tool_call import Caller
from tests.unit.tools.test_quantum import child, long_circuit
from noetl.tools import quantum, quantum_jobs

async def main():
    await Caller(quantum).ask(operation="submit", circuit=long_circuit())
    print(await child(), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_a_simulator_dies_with_its_worker() -> None:
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", SCRIPT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root, text=True) as worker:
        assert worker.stdout is not None
        pid = int(worker.stdout.readline())
        worker.kill()
    give_up = time.monotonic() + 300
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]:
        assert time.monotonic() < give_up
        time.sleep(0.01)
