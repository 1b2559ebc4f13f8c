"""Servers on one database, and workers that reach them through proxies which lose answers."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.acceptance.modes import stage
from tests.servers import short_leases
from tests.servers.faulty_proxy import FaultyProxy, faulty_proxy
from tests.servers.ports import reserved_port

SHORT = (str(Path(short_leases.__file__)),)


class Site:
    """What takes part. Worker N has a proxy of its own in front of server N, as far as there are that many."""

    def __init__(
        self,
        folder: Path,
        db: str,
        client: stage.Client,
        servers: list[stage.Process],
        workers: list[stage.Process],
        proxies: list[FaultyProxy],
    ) -> None:
        self.client, self.servers, self.workers, self.proxies = client, servers, workers, proxies
        self.mode = stage.Served(folder, db, client, servers, workers)

    def pids(self) -> list[int]:
        """The processes of the workers."""
        return [one.process.pid for one in self.workers if one.process is not None]

    def thaw(self) -> None:
        """Nobody is left stopped."""
        for one in (*self.servers, *self.workers):
            if one.process is not None and one.process.poll() is None:
                os.kill(one.process.pid, signal.SIGCONT)


@contextmanager
def site(
    folder: Path,
    db: str,
    dice: random.Random,
    *,
    servers: int = 1,
    workers: int = 2,
    slots: int = 1,
    short: bool = True,
    more: tuple[str, ...] = (),
) -> Iterator[Site]:
    """A site with leases that live for six seconds, or as long as they do in production."""
    program = SHORT if short else stage.PROGRAM
    token = stage.make_token(folder, db, "admin")
    with ExitStack() as stack:
        ports = [reserved_port() for _ in range(servers)]
        listening = [stage.server(folder, db, port, *more) for port in ports]
        working: list[stage.Process] = []
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        proxies = [stack.enter_context(faulty_proxy(urls[n % servers], dice)) for n in range(workers)]
        for n, proxy in enumerate(proxies):
            name = f"worker{n}"
            arguments = ("--name", name, "--slots", str(slots), "--grace", "0")
            working.append(stage.worker(folder, db, name, proxy.endpoint, *arguments))
        for one in (*listening, *working):
            one.program = program
            stack.callback(_end, one)
        for one in listening:
            one.start().until_said("noetl server at")
        for one in working:
            one.start()
        client = stage.Client(urls, token)
        stack.enter_context(client.http)
        made = Site(folder, db, client, listening, working, proxies)
        stack.callback(made.thaw)
        yield made


def _end(one: stage.Process) -> None:
    if one.process is not None and one.process.poll() is None:
        one.kill()
