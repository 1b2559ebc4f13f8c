"""noetl server: the engine and its API, for workers and clients."""

from __future__ import annotations

import asyncio
import socket

import click

from noetl.cli.daemon import flags_of, harden, log_option, on_signal
from noetl.cli.options import DB_HELP
from noetl.cli.pool import WORKERS_USER_HELP, Member, Pool, WorkersUser
from noetl.cli.serving import HostOptions, make_token, retention_option, revoke, running, served
from noetl.cli.start import collect_garbage
from noetl.clock import SystemClock
from noetl.errors import UsageError
from noetl.log import Log
from noetl.server.listen import bound, check_address, url_of
from noetl.settings import nats_settings, traces_endpoint, trusted_proxies
from noetl.store.store import Store
from noetl.worker.worker_loop import GRACE_SECONDS

PORT = 8082
TRACES_HELP = (
    "OTLP/HTTP receiver for traces, such as http://collector:4318, or off; default NOETL_TRACES, then "
    "OTEL_EXPORTER_OTLP_ENDPOINT."
)
PROXY_HELP = "Address or network of a proxy whose X-Forwarded-For is trusted; default NOETL_TRUSTED_PROXIES."
NATS_HELP = "NATS server, such as nats://HOST:4222, or several separated by commas; default NOETL_NATS."


@click.command("server")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Port; 0: any free port.")
@click.option("--db", metavar="URL", help=DB_HELP)
@click.option("--nats", metavar="URL", help=NATS_HELP)
@click.option("--workers", type=click.IntRange(0, 64), default=0, show_default=True, help="Number of workers to start.")
@click.option("--workers-user", metavar="USER", help=WORKERS_USER_HELP)
@click.option("--slots", type=click.IntRange(1, 1000), default=16, show_default=True, help="Tasks at once per worker.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="Host name that clients may use.")
@click.option("--trusted-proxy", "proxies", multiple=True, metavar="ADDRESS", help=PROXY_HELP)
@click.option("--traces", metavar="URL", help=TRACES_HELP)
@retention_option
@log_option
def command(
    host: str,
    port: int,
    db: str | None,
    nats: str | None,
    workers: int,
    workers_user: str | None,
    slots: int,
    hosts: tuple[str, ...],
    proxies: tuple[str, ...],
    traces: str | None,
    retention: float | None,
    log: Log,
) -> None:
    """Serve a database to workers and clients, until SIGTERM or Ctrl-C.

    Any number of servers can share a Postgres database; a file has one. An address that other machines can reach needs
    a token or a user first: `noetl token create`, `noetl user add`. Start workers with `noetl worker`, or with
    `--workers` as processes on this machine that are restarted when they die. Without `--workers-user`, task code runs
    as the user of the server and can read its database and keys: every author is then in effect an admin.
    """
    if workers_user is not None and not workers:
        raise UsageError("--workers-user requires --workers N: it applies only to workers that the server starts")
    user = None if workers_user is None else WorkersUser.named(workers_user)
    harden()
    collect_garbage()
    options = HostOptions(hosts, retention, log, nats_settings(nats), traces_endpoint(traces), trusted_proxies(proxies))
    with served(db) as store:
        check_address(host, store.access, SystemClock().now())
        listener = bound(host, port)
        asyncio.run(_serve(store, listener, workers, user, slots, options))


async def _serve(
    store: Store, listener: socket.socket, workers: int, user: WorkersUser | None, slots: int, options: HostOptions
) -> None:
    url = url_of(listener)
    tokens = [make_token(store, "worker", f"worker {number} of {socket.gethostname()}") for number in range(workers)]
    try:
        async with running(store, listener, options) as host:
            arguments = ["--server", url, "--slots", str(slots), *flags_of(options.log)]
            members = [Member(secret) for _, secret in tokens]
            pool = Pool(arguments, members, GRACE_SECONDS, options.log, user=user)
            working = asyncio.create_task(_work(pool, host.ended))
            on_signal(pool.end if workers else host.ended.set)
            options.log.write("info", f"noetl server at {url}{f', {workers} workers' if workers else ''}")
            await host.ended.wait()
            working.cancel()
    finally:
        revoke(store, [name for name, _ in tokens])


async def _work(pool: Pool, ended: asyncio.Event) -> None:
    """Run the workers. The server stops after them, so that they can report their last outcomes."""
    await pool.run()
    await pool.ended.wait()
    ended.set()
