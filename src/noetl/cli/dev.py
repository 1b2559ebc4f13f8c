"""noetl dev: server and worker in one process, for one person."""

from __future__ import annotations

import asyncio
import os
import socket
from functools import partial

import click

import noetl
from noetl.addresses import forbid_addresses
from noetl.cli.daemon import harden, log_option, on_signal
from noetl.cli.serving import HostOptions, RunningServer, make_token, retention_option, revoke, running, served
from noetl.cli.start import collect_garbage
from noetl.clock import SystemClock
from noetl.host.heartbeats import LocalHeartbeat
from noetl.host.local_link import LocalLink
from noetl.log import Log
from noetl.server.listen import bound, url_of
from noetl.settings import nats_settings, traces_endpoint
from noetl.store.store import Store, WorkerSession
from noetl.tools.registry import KINDS
from noetl.worker.output import Output
from noetl.worker.worker import Worker
from noetl.worker.worker_loop import WorkerLoop

PORT = 8082
SLOTS = 64
POOL = "default"
GRACE_SECONDS = 5.0
TOKEN = "noetl dev"


@click.command("dev")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Port; 0: any free port.")
@click.option("--db", metavar="PATH", help="Database file; default NOETL_DB, then ./.noetl/noetl.db.")
@retention_option
@log_option
def command(port: int, db: str | None, retention: float | None, log: Log) -> None:
    """Run the API and a worker in one process, for this machine, until Ctrl-C.

    It creates a token that is valid while it runs, and prints the address of the web page and the variables for other
    verbs. Task code runs as your user: everyone who can write a playbook here can do everything that you can do.
    """
    harden()
    collect_garbage()
    options = HostOptions((), retention, log, nats_settings(), traces_endpoint())
    with served(db) as store:
        listener = bound("127.0.0.1", port)
        revoke(store, [old.id for old in store.access.tokens() if old.name == TOKEN and old.revoked is None])
        name, secret = make_token(store, "admin", TOKEN)
        try:
            asyncio.run(_serve(store, listener, secret, options))
        finally:
            revoke(store, [name])


async def _serve(store: Store, listener: socket.socket, token: str, options: HostOptions) -> None:
    url = url_of(listener)
    forbid_addresses()
    async with running(store, listener, options) as host:
        loop, heartbeat = _worker(host, options.log)
        on_signal(lambda: loop.stop() if host.ended.is_set() else host.ended.set())
        working, beating = asyncio.create_task(loop.run()), asyncio.create_task(heartbeat.run())
        click.echo(f"noetl dev: {url}/#token={token}", err=True)
        click.echo(f"export NOETL_SERVER={url} NOETL_TOKEN={token}")
        await host.ended.wait()
        loop.stop()
        await asyncio.gather(working, return_exceptions=True)
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        try:
            await heartbeat.link.store_output()
        finally:
            await KINDS.close()


def _worker(host: RunningServer, log: Log) -> tuple[WorkerLoop, LocalHeartbeat]:
    """A worker beside the server."""
    clock, name = SystemClock(), f"dev-{os.getpid()}"
    output = Output(clock, max_lines=None)  # tools limit the output of a call, and every report stores it
    link = LocalLink(host.engine.dispatcher, output, POOL)
    worker = Worker(name, link, KINDS, clock, SLOTS, output.write)
    session = WorkerSession(name, POOL, SLOTS, socket.gethostname(), clock.now(), version=noetl.__version__)
    heartbeat = LocalHeartbeat(worker, link, session, host.engine.heartbeats, host.engine.on_error)
    return WorkerLoop(worker, partial(log.write, "warning"), GRACE_SECONDS), heartbeat
