"""The faults of the chaos: each strikes a process, a connection or a disk of a site, and is healed later."""

from __future__ import annotations

import os
import random
import resource
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from tests.acceptance.chaos.disk import SmallDisk
from tests.acceptance.chaos.ledger import Effect, Ledger, process_at
from tests.acceptance.chaos.site import Site
from tests.acceptance.modes import stage
from tests.servers.faulty_proxy import FaultyProxy
from tests.servers.nats import RestartedNats
from tests.servers.patience import until
from tests.servers.postgres import PostgresServer
from tests.servers.short_leases import LEASE_SECONDS

SHORT_OUTAGE = (0.0, 1.0)
OUTAGE = (0.2, 3.0)
STOPPED = (0.5, 1.5 * LEASE_SECONDS)
ZOMBIE_SECONDS = 60.0
"""A stopped worker is continued after this time even if no worker has repeated its call."""
REFUSED_WRITES = 5
FULL_SECONDS = 15.0
"""A disk has room again after this time even if no write has failed."""
DROP_RATE = 0.3
STARTING_KILL_RATE = 0.003
"""Probability that a process which is not up yet is chosen to be killed."""

KILLS = ("worker killed", "server killed")
ZOMBIES = "worker stopped past its lease"
DATABASE_FAULTS = ("Postgres stopped", "Postgres killed")
NATS_FAULTS = ("NATS restarted", "NATS wiped")
DISK_FULL = "disk full"
LOSSES = ("worker killed", ZOMBIES)
"""Faults that take leases away. The fifth in a row without progress would fail a run, as it should."""


class Fault(NamedTuple):
    """What has struck a target; no other fault strikes it before `heal`, which is due when `is_over`."""

    kind: str
    target: str
    is_over: Callable[[], bool]
    heal: Callable[[], None]


class Faults:
    """Strikes a site. `struck` counts the faults, `times` has when each one has struck."""

    def __init__(
        self,
        site: Site,
        book: Ledger,
        dice: random.Random,
        postgres: PostgresServer | None,
        nats: RestartedNats,
        disk: SmallDisk | None,
    ) -> None:
        self.site, self.book, self.dice = site, book, dice
        self.postgres, self.nats, self.disk = postgres, nats, disk
        self.active: dict[str, Fault] = {}
        self.struck: Counter[str] = Counter()
        self.times: list[tuple[str, float]] = []
        self.names = 0
        self.kinds: dict[str, Callable[[str], Fault | None]] = {
            "worker killed": lambda kind: self._kill(kind, "worker", self.site.workers),
            "server killed": lambda kind: self._kill(kind, "server", self.site.servers),
            ZOMBIES: self._stop_worker,
            "server stopped": self._stop_server,
            "Postgres stopped": lambda kind: self._stop_postgres(kind, lambda server: server.stop(signal.SIGQUIT)),
            "Postgres killed": lambda kind: self._stop_postgres(kind, PostgresServer.kill),
            "NATS restarted": lambda kind: self._stop_nats(kind, wipe=False),
            "NATS wiped": lambda kind: self._stop_nats(kind, wipe=True),
            "connections cut": lambda kind: self._connections(kind, FaultyProxy.cut),
            "connections half-open": lambda kind: self._connections(kind, FaultyProxy.silence),
            "connections slow": self._slow,
            "connections refused": self._refuse,
            "responses dropped": self._drop,
            "file descriptors exhausted": self._exhaust,
            DISK_FULL: self._fill,
        }
        if postgres is None:
            for kind in DATABASE_FAULTS:
                del self.kinds[kind]
        if disk is None:
            del self.kinds[DISK_FULL]

    def strike(self, kind: str) -> None:
        """Make a fault of that kind, as soon as one of its targets is free."""
        at = time.time()
        fault = self.kinds[kind](kind)
        while fault is None:
            self.heal_due()
            time.sleep(0.02)
            at = time.time()
            fault = self.kinds[kind](kind)
        self.active[fault.target] = fault
        print(f"{time.strftime('%H:%M:%S', time.localtime(at))} {fault.target}: {kind}", flush=True)
        self.times.append((kind, at))

    def heal_due(self) -> None:
        for fault in list(self.active.values()):
            if fault.is_over():
                self._heal(fault)
        self._restart_ended()

    def _restart_ended(self) -> None:
        """As a supervisor does. A server does not start without its database; nothing that is up ends by itself."""
        for name, processes in (("server", self.site.servers), ("worker", self.site.workers)):
            for number, process in enumerate(processes):
                assert process.process is not None
                if f"{name} {number}" not in self.active and process.process.poll() is not None:
                    assert not process.is_up(), f"{name} {number} has ended: {process.output_text()[-2000:]}"
                    process.start()

    def heal_all(self) -> None:
        """Let every fault last as long as it should, then nothing is left of it."""
        while self.active:
            self.heal_due()
            time.sleep(0.02)

    def _heal(self, fault: Fault) -> None:
        fault.heal()
        del self.active[fault.target]
        self.struck[fault.kind] += 1

    def _free(self, name: str, count: int) -> str | None:
        """One of the targets `name 0`, `name 1`, ... that no fault has."""
        names = [f"{name} {number}" for number in range(count) if f"{name} {number}" not in self.active]
        return self.dice.choice(names) if names else None

    def _after(self, seconds: tuple[float, float]) -> Callable[[], bool]:
        end = time.monotonic() + self.dice.uniform(*seconds)
        return lambda: time.monotonic() >= end

    # -- processes --------------------------------------------------------------------------------------------------

    def _kill(self, kind: str, name: str, processes: list[stage.Process]) -> Fault | None:
        """kill -9, of a process that is up or about to start. A worker comes back under its name or under another one,
        as a new container would."""
        target = self._free(name, len(processes))
        if target is None or not (processes[_number(target)].is_up() or self.dice.random() < STARTING_KILL_RATE):
            return None
        process = processes[_number(target)]
        process.kill()

        def start() -> None:
            if name == "worker" and self.dice.random() < 0.5:
                self.names += 1
                process.args = (*process.args[:-1], f"worker-{self.names}")
            process.start()

        return Fault(kind, target, self._after(SHORT_OUTAGE), start)

    def _stop_server(self, kind: str) -> Fault | None:
        target = self._free("server", len(self.site.servers))
        if target is None or not self.site.servers[_number(target)].is_up():  # one that starts may end by itself
            return None
        pid = _pid(self.site.servers[_number(target)])
        os.kill(pid, signal.SIGSTOP)
        return Fault(kind, target, self._after(STOPPED), lambda: os.kill(pid, signal.SIGCONT))

    def _stop_worker(self, kind: str) -> Fault | None:
        """SIGSTOP in the middle of a call, until another worker has repeated that call: the lease is lost then."""
        free = {n: _pid(worker) for n, worker in enumerate(self.site.workers) if f"worker {n}" not in self.active}
        stopped: list[tuple[int, Effect]] = []
        lock = threading.Lock()

        def stop(effect: Effect, port: int) -> None:
            with lock:
                pid = None if stopped else process_at(port, free.values())
                if pid is not None:
                    os.kill(pid, signal.SIGSTOP)
                    stopped.append((pid, effect))

        if len(free) < 2:  # the other one repeats the call
            return None
        self.book.on_effect = stop
        until(lambda: self.heal_due() or stopped)
        self.book.on_effect = lambda effect, port: None
        ((pid, first),) = stopped
        (number,) = (number for number, other in free.items() if other == pid)
        deadline = time.monotonic() + ZOMBIE_SECONDS

        def is_repeated() -> bool:
            again = (call.key == first.key and call.at > first.at for call in self.book.of_family(first.root))
            return time.monotonic() > deadline or any(again)

        return Fault(kind, f"worker {number}", is_repeated, lambda: os.kill(pid, signal.SIGCONT))

    def _exhaust(self, kind: str) -> Fault | None:
        """A server or worker may open no more files and sockets than it has open now."""
        name, processes = self.dice.choice([("server", self.site.servers), ("worker", self.site.workers)])
        target = self._free(name, len(processes))
        if target is None or not processes[_number(target)].is_up():
            return None
        pid = _pid(processes[_number(target)])
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")), before[1]))
        heal = lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, before) and None  # noqa: E731
        return Fault(kind, target, self._after(OUTAGE), heal)

    # -- Postgres and NATS ------------------------------------------------------------------------------------------

    def _stop_postgres(self, kind: str, stop: Callable[[PostgresServer], None]) -> Fault | None:
        assert self.postgres is not None
        if "postgres" in self.active:
            return None
        stop(self.postgres)
        return Fault(kind, "postgres", self._after(SHORT_OUTAGE), self.postgres.start)

    def _stop_nats(self, kind: str, *, wipe: bool) -> Fault | None:
        if "nats" in self.active:
            return None
        self.nats.stop()
        if wipe:
            self.nats.wipe()
        return Fault(kind, "nats", self._after(OUTAGE), lambda: self.nats.start() and None)

    def _fill(self, kind: str) -> Fault | None:
        """The disk of the database. Postgres ends when it cannot write its log; it is started again then."""
        disk, postgres = self.disk, self.postgres
        assert disk is not None
        if "postgres" in self.active:
            return None
        before = self._refused_writes()
        disk.fill()
        deadline = time.monotonic() + FULL_SECONDS

        def has_struck() -> bool:
            ended = postgres is not None and postgres.has_ended()
            return ended or self._refused_writes() > before + REFUSED_WRITES or time.monotonic() > deadline

        def clear() -> None:
            disk.clear()
            if postgres is not None:
                postgres.revive()

        return Fault(kind, "postgres", has_struck, clear)

    def _refused_writes(self) -> int:
        """How many requests servers have refused because the disk is full."""
        return sum(server.output_text().count('"status":507') for server in self.site.servers)

    # -- connections ------------------------------------------------------------------------------------------------

    def _proxy(self) -> tuple[str, FaultyProxy] | None:
        groups = {
            "proxy of worker": self.site.proxies,
            "proxy of database": self.site.database_proxies,
            "proxy of nats": self.site.nats_proxies,
        }
        name = self.dice.choice([name for name, group in groups.items() if group])
        target = self._free(name, len(groups[name]))
        return None if target is None else (target, groups[name][_number(target)])

    def _connections(self, kind: str, strike: Callable[[FaultyProxy], None]) -> Fault | None:
        """A fault that is not healed: the client detects it, and opens another connection."""
        if (free := self._proxy()) is None:
            return None
        target, proxy = free
        strike(proxy)
        return Fault(kind, target, lambda: True, lambda: None)

    def _slow(self, kind: str) -> Fault | None:
        if (free := self._proxy()) is None:
            return None
        target, proxy = free
        proxy.slow_seconds = self.dice.uniform(0.02, 0.3)
        return Fault(kind, target, self._after(OUTAGE), lambda: setattr(proxy, "slow_seconds", 0.0))

    def _refuse(self, kind: str) -> Fault | None:
        if (free := self._proxy()) is None:
            return None
        target, proxy = free
        proxy.refuse = True
        proxy.cut()
        return Fault(kind, target, self._after(OUTAGE), lambda: setattr(proxy, "refuse", False))

    def _drop(self, kind: str) -> Fault | None:
        """Responses are lost after the server, the database or NATS has acted."""
        if (free := self._proxy()) is None:
            return None
        target, proxy = free
        proxy.kinds, proxy.rate = ("drop",), DROP_RATE
        return Fault(kind, target, self._after(OUTAGE), lambda: setattr(proxy, "rate", 0.0))


def _number(target: str) -> int:
    return int(target.rpartition(" ")[2])


def _pid(process: stage.Process) -> int:
    assert process.process is not None
    return process.process.pid
