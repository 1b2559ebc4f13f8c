"""noetl worker: execute tasks of a server."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from functools import partial

import click
import msgspec

import noetl
from noetl.addresses import forbid_addresses
from noetl.cli.daemon import flags_of, harden, log_option, on_signal
from noetl.cli.options import INSECURE_HELP
from noetl.cli.pool import Member, Pool
from noetl.cli.start import collect_garbage
from noetl.client.embedded import object_buckets
from noetl.clock import SystemClock
from noetl.errors import AuthError, UsageError
from noetl.log import Log
from noetl.settings import NatsSettings, ServerAddress, nats_settings, nats_variables, server_address, take_over
from noetl.tools.registry import KINDS
from noetl.worker.heartbeat import Heartbeat
from noetl.worker.http_link import HttpLink
from noetl.worker.output import OutputBuffer
from noetl.worker.server_client import http_client
from noetl.worker.wire import HeartbeatRequest
from noetl.worker.worker import Worker
from noetl.worker.worker_loop import GRACE_SECONDS, WorkerLoop

TOKEN_HELP = "Token of the worker. Prefer NOETL_TOKEN or NOETL_TOKEN_FILE: options are visible in the process list."

NATS_HELP = (
    "NATS server, so that results of `nats_object` bypass the noetl server; default NOETL_NATS. Without it the noetl "
    "server stores and reads them."
)
NAME_HELP = "Name of the worker, numbered if there are several; default host and process id."
GRACE_HELP = f"Time for running tasks to finish after SIGTERM; default {GRACE_SECONDS:g}."


@click.command("worker")
@click.option("--server", metavar="URL", help="Server; default NOETL_SERVER.")
@click.option("--token", metavar="TOKEN", help=TOKEN_HELP)
@click.option("--insecure", is_flag=True, help=INSECURE_HELP)
@click.option("--pool", default="default", show_default=True, metavar="NAME", help="Pool whose tasks it executes.")
@click.option("--slots", type=click.IntRange(1, 1000), default=16, show_default=True, help="Maximum tasks at once.")
@click.option("--nats", metavar="URL", help=NATS_HELP)
@click.option("--processes", type=click.IntRange(1, 100), default=1, show_default=True, help="Number of processes.")
@click.option("--name", metavar="NAME", help=NAME_HELP)
@click.option("--grace", type=click.FloatRange(0), default=GRACE_SECONDS, metavar="SECONDS", help=GRACE_HELP)
@click.option("--until-eof", is_flag=True, hidden=True, help="End when standard input is closed.")
@log_option
def command(
    server: str | None,
    token: str | None,
    insecure: bool,
    pool: str,
    slots: int,
    nats: str | None,
    processes: int,
    name: str | None,
    grace: float,
    until_eof: bool,
    log: Log,
) -> None:
    """Execute tasks of a server, until SIGTERM or Ctrl-C.

    It then claims no more tasks, gives running ones a grace time to finish, and returns the rest; a second signal stops
    it at once. It opens no port and needs no database.
    """
    if until_eof:  # the parent process writes NOETL_ variables to standard input, as one line of JSON
        with open(0, "rb", buffering=0, closefd=False) as stdin:
            line = stdin.readline()
        if not line.endswith(b"\n"):
            raise UsageError("--until-eof: no token on standard input; this option is for internal use")
        take_over(msgspec.json.decode(line, type=dict[str, str]))
    harden()
    address = server_address(server, token, insecure=insecure)
    if address is None:
        raise UsageError("a worker needs a server: use --server URL, or set NOETL_SERVER")
    if not address.token:
        raise UsageError("a worker needs a token: set NOETL_TOKEN to one of `noetl token create --role worker`")
    if address.exposed:
        log.write(
            "warning", f"{address.url} is not encrypted: the token and the credentials of tasks are sent in plain text"
        )
    collect_garbage()
    forbid_addresses()
    if processes > 1:
        arguments = ["--server", address.url, "--pool", pool, "--slots", str(slots), *flags_of(log)]
        names = [None if name is None else f"{name}-{number}" for number in range(1, processes + 1)]
        members = [Member(address.token, name) for name in names]
        asyncio.run(_supervise(Pool(arguments, members, grace, log, settings=nats_variables(nats))))
        return
    host = socket.gethostname()
    name = name or f"{host}-{os.getpid()}-{os.urandom(3).hex()}"
    session = HeartbeatRequest(name, pool, slots, {}, host, SystemClock().now(), noetl.__version__)
    asyncio.run(_work(address, session, grace, until_eof, log, nats_settings(nats)))


async def _supervise(pool: Pool) -> None:
    on_signal(pool.end)
    if await pool.run():
        raise AuthError("the server rejected all workers; see the errors above")


async def _work(
    address: ServerAddress,
    session: HeartbeatRequest,
    grace: float,
    until_eof: bool,
    log: Log,
    nats: NatsSettings | None,
) -> None:
    name, pool, slots, clock = session.worker, session.pool, session.slots, SystemClock()
    output = OutputBuffer(clock)
    async with object_buckets(nats, log.write) as buckets:
        link = HttpLink(http_client(address.url, address.token), name, pool, output, buckets)
        worker = Worker(name, link, KINDS, clock, slots, output.write)
        loop = WorkerLoop(worker, partial(log.write, "warning"), grace)
        heartbeat = Heartbeat(worker, link, session, loop.reject, log.write, on_directive=loop.obey)

        def end() -> None:
            log.write("info", "shutting down", worker=name, leases=len(worker.leases))
            loop.stop()

        on_signal(end)
        if until_eof:
            watch_stdin(end)
        heartbeat.start()
        message = f"worker {name} takes work of pool {pool} from {address.url}, {slots} at once"
        log.write("info", message, worker=name, pool=pool, slots=slots)
        try:
            await loop.run()
        finally:
            heartbeat.stop()
            await KINDS.close()
            await asyncio.to_thread(heartbeat.join)
            await link.close()
            log.write("info", f"worker {name} stopped", worker=name)


def watch_stdin(act: Callable[[], None]) -> None:
    """Call a function when standard input ends: the parent process is gone."""
    loop = asyncio.get_running_loop()

    def watch() -> None:
        while os.read(0, 4096):  # not through sys.stdin: a thread that waits there breaks the end of Python
            pass
        if not loop.is_closed():
            loop.call_soon_threadsafe(act)

    threading.Thread(target=watch, daemon=True).start()
