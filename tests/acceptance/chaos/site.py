"""Servers on one database, workers, and the connections between them, which lead through proxies that make faults."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.acceptance.modes import stage
from tests.servers import short_leases
from tests.servers.faulty_proxy import FaultyProxy, faulty_proxy
from tests.servers.nats import RestartedNats
from tests.servers.ports import reserved_port

SHORT = Path(short_leases.__file__).read_text()
CLIENT_SECONDS = 10.0
"""A server that is stopped does not answer; then the client asks the other one."""


class Site:
    """Servers, workers and proxies. Each worker has its own proxy in front of one of the servers. With `proxied`, each
    server has one in front of its database and one in front of NATS, too."""

    def __init__(
        self,
        folder: Path,
        db: str,
        client: stage.Client,
        servers: list[stage.Process],
        workers: list[stage.Process],
        proxies: list[FaultyProxy],
        database_proxies: list[FaultyProxy],
        nats_proxies: list[FaultyProxy],
    ) -> None:
        self.client, self.servers, self.workers, self.proxies = client, servers, workers, proxies
        self.database_proxies, self.nats_proxies = database_proxies, nats_proxies
        self.mode = stage.Served(folder, db, client, servers, workers)

    def pids(self) -> list[int]:
        """The processes of the workers."""
        return [worker.process.pid for worker in self.workers if worker.process is not None]

    def continue_all(self) -> None:
        """Continue all stopped processes."""
        for machine in (*self.servers, *self.workers):
            if machine.process is not None and machine.process.poll() is None:
                os.kill(machine.process.pid, signal.SIGCONT)


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
    proxied: bool = False,
    nats: RestartedNats | None = None,
    more: tuple[str, ...] = (),
) -> Iterator[Site]:
    """A site with leases that live for six seconds, or as long as they do in production."""
    token = stage.make_token(folder, db, "admin")
    with ExitStack() as stack:

        def proxy(endpoint: str) -> FaultyProxy:
            return stack.enter_context(faulty_proxy(endpoint, dice))

        ports = [reserved_port() for _ in range(servers)]
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        database_proxies = [proxy(db) for _ in ports if proxied and db.startswith("postgresql")]
        nats_proxies = [proxy(nats.url) for _ in ports if proxied and nats is not None]
        dbs = [_through(db, link) for link in database_proxies] or [db] * servers
        nats_urls = [f"nats://127.0.0.1:{link.port}" for link in nats_proxies] or [nats.url if nats else ""] * servers
        listening = [
            stage.server(folder, address, port, *(("--nats", url) if url else ()), *more)
            for port, address, url in zip(ports, dbs, nats_urls, strict=True)
        ]
        working: list[stage.Process] = []
        proxies = [proxy(urls[n % servers]) for n in range(workers)]
        for n, link in enumerate(proxies):
            arguments = ("--slots", str(slots), "--grace", "0", "--name", f"worker{n}")
            working.append(stage.worker(folder, db, f"worker{n}", link.endpoint, *arguments))
        for process in (*listening, *working):
            process.code = SHORT if short else ""
            stack.callback(_end, process)
        for process in listening:
            process.start().until_said("noetl server at")
        for process in working:
            process.start()
        client = stage.Client(urls, token, CLIENT_SECONDS)
        stack.enter_context(client.http)
        opened_site = Site(folder, db, client, listening, working, proxies, database_proxies, nats_proxies)
        stack.callback(opened_site.continue_all)
        yield opened_site


def _through(db: str, proxy: FaultyProxy) -> str:
    """The address of a database at the other end of a proxy."""
    return db.replace(f":{urlsplit(db).port}/", f":{proxy.port}/", 1)


def _end(machine: stage.Process) -> None:
    if machine.process is not None and machine.process.poll() is None:
        machine.kill()
