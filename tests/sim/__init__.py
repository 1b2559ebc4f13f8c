"""The whole system in one process, from a seed: two servers, three workers, a store, a network and a clock.

The core and the shell are the real ones: `ServerHost` with its background loops, the endpoints of the worker protocol,
`HttpLink`, `WorkerLoop`, `Heartbeat`, the committer and the pipelines. Only what lies outside of a process is
simulated, each part by one file:

    virtual.py    time, and processes (`Node`) that can be killed and stopped between any two steps of the event loop
    faults.py     which faults happen, and when: every decision comes from the seed
    database.py   a store in memory behind connections that are slow, break, and lose the answer of a commit
    network.py    requests that are lost, repeated, delayed and reordered on their way to a server and back
    broker.py     hints between servers, which get lost
    machines.py   servers and workers as nodes, and the client that starts, signals, pauses, cancels and forks runs
    playbooks.py  random playbooks of which the result is known by construction
    schedule.py   a schedule whose firings both servers may start
    forks.py      forks and retries of runs that run or have ended, and what must hold for them
    checks.py     what must hold after every run
    batches.py    the seeds of `make test`, and the slices of the soak
    story.py      `simulate(seed)`: one seed from its start to its checks
    shrink.py     the smallest set of faults with which a seed still fails

There are no threads, no sockets and no real time: when nothing is ready, the clock jumps to the next timer. A seed
tells the same story in every process. `noetl sim --seed N` prints it.
"""

from tests.sim.story import Story, simulate

__all__ = ["Story", "simulate"]
