"""noetl server, noetl dev: the engine and its API, for workers and clients; `dev` has a worker in the same process."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource
from msgspec.structs import replace

import noetl
from noetl.access import hash_of, new_token
from noetl.addresses import forbid_addresses
from noetl.cli.daemon import flags_of, harden, log_option, on_signal
from noetl.cli.options import DB_HELP, server_option
from noetl.cli.output import emit, output_option, print_message
from noetl.cli.pool import WORKERS_USER_HELP, Member, Pool, WorkersUser
from noetl.cli.start import collect_garbage
from noetl.client.database import opened, opener, safe_of, server_of
from noetl.client.dev_server import announced, dev_file, stored_token
from noetl.clock import SystemClock
from noetl.errors import Conflict, NoetlError, UsageError
from noetl.host.background import described, keep_running
from noetl.host.heartbeats import send_heartbeats
from noetl.host.local_link import LocalLink
from noetl.log import Log
from noetl.server.server_settings import ServerSettings
from noetl.settings import NatsSettings, nats_settings, retention, settings, traces_endpoint, trusted_proxies
from noetl.store.access import Role
from noetl.store.sqlite import Owner, SqliteStore
from noetl.store.store import Store, WorkerSession
from noetl.tools.registry import KINDS
from noetl.worker.output import OutputBuffer
from noetl.worker.worker import Worker
from noetl.worker.worker_loop import GRACE_SECONDS, WorkerLoop

if TYPE_CHECKING:
    from noetl.client.http import HttpClient
    from noetl.host.server_host import ServerHost
    from noetl.server.api import Api

PORT = 8082
DEV_SLOTS, DEV_POOL, DEV_TOKEN, DEV_GRACE_SECONDS = 64, "default", "noetl dev", 5.0
RETENTION_HELP = (
    "Time after which ended runs are removed, such as 90d; off (or 0) removes none. Default NOETL_RETENTION, then 30d."
)
TRACES_HELP = (
    "OTLP/HTTP receiver for traces, such as http://collector:4318, or off; default NOETL_TRACES, then "
    "OTEL_EXPORTER_OTLP_ENDPOINT."
)
PROXY_HELP = "Address or network of a proxy whose X-Forwarded-For is trusted; default NOETL_TRUSTED_PROXIES."
NATS_HELP = "NATS server, such as nats://HOST:4222, or several separated by commas; default NOETL_NATS."

port_option = click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Port; 0: any free port."
)


def setting(flag: str, read: Callable[[Any], Any], *names: str, **attributes: Any) -> Callable[..., Any]:
    """An option whose default is an environment variable; the verb gets what `read` makes of it."""
    return click.option(flag, *names, callback=lambda context, option, value: read(value), **attributes)


retention_option = setting("--retention", retention, metavar="DURATION", help=RETENTION_HELP)


class HostOptions(ServerSettings, frozen=True, kw_only=True):
    retention: float | None = None  # seconds after which ended executions are removed; None: never
    nats: NatsSettings | None = None
    proxies: tuple[str, ...] = ()


class RunningServer(NamedTuple):
    engine: ServerHost
    ended: asyncio.Event  # set it to stop the server
    stop_requested: asyncio.Event  # set by a request to stop it

    async def stop_on_request(self, stop: Callable[[], object]) -> None:
        await self.stop_requested.wait()
        stop()


@click.group("server", invoke_without_command=True)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@port_option
@click.option("--db", metavar="URL", help=DB_HELP)
@setting("--nats", nats_settings, metavar="URL", help=NATS_HELP)
@click.option("--workers", type=click.IntRange(0, 64), default=0, show_default=True, help="Number of workers to start.")
@click.option("--workers-user", metavar="USER", help=WORKERS_USER_HELP)
@click.option("--slots", type=click.IntRange(1, 1000), default=16, show_default=True, help="Tasks at once per worker.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="Host name that clients may use.")
@setting("--trusted-proxy", trusted_proxies, "proxies", multiple=True, metavar="ADDRESS", help=PROXY_HELP)
@setting("--traces", traces_endpoint, metavar="URL", help=TRACES_HELP)
@retention_option
@log_option
@click.pass_context
def command(
    context: click.Context,
    /,
    host: str,
    port: int,
    db: str | None,
    workers: int,
    workers_user: str | None,
    slots: int,
    **options: Any,
) -> None:
    """Serve a database to workers and clients, until SIGTERM or Ctrl-C.

    Any number of servers can share a Postgres database; a file has one. An address that other machines can reach needs
    a token or a user first: `noetl token create`, `noetl user add`. Start workers with `noetl worker`, or with
    `--workers` as processes on this machine that are restarted when they die. Without `--workers-user`, task code runs
    as the user of the server and can read its database and keys: every author is then in effect an admin.
    """
    if (verb := context.invoked_subcommand) is not None:
        misplaced = [
            name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        ]
        if misplaced:
            from noetl.server.listen import server_url

            command = f"noetl server {verb} --server {server_url(host, port)}"
            raise UsageError(f"options before `{verb}` are those of a new server: write `{command}`")
        return
    if workers_user is not None and not workers:
        raise UsageError("--workers-user requires --workers N: it applies only to workers that the server starts")
    user = None if workers_user is None else WorkersUser.named(workers_user)
    from noetl.server.listen import bound, check_address

    harden()
    collect_garbage()
    with served(db) as store:
        check_address(host, store.access, SystemClock().now())
        listener = bound(host, port)
        asyncio.run(_serve(store, listener, workers, user, slots, HostOptions(**options)))


@command.command("status")
@server_option
@output_option()
def status_command(client: HttpClient, output: str | None) -> None:
    """Show the version, the workers and the open runs of a server; exit 7 if it does not respond."""
    emit(client.server.get(), output or "yaml")


@command.command("stop")
@server_option
def stop_command(client: HttpClient) -> None:
    """Shut down a server: it answers the requests that it has, and stops the workers that it has started.

    Runs continue when a server is back. Of several servers the one that gets the request stops.
    """
    client.server.stop()
    print_message("the server is stopping")


async def _serve(
    store: Store, listener: socket.socket, workers: int, user: WorkersUser | None, slots: int, options: HostOptions
) -> None:
    from noetl.server.listen import url_of

    url = url_of(listener)
    tokens = [make_token(store, "worker", f"worker {number} of {socket.gethostname()}") for number in range(workers)]
    try:
        async with running(store, listener, options) as host:
            arguments = ["--server", url, "--slots", str(slots), *flags_of(options.log)]
            members = [Member(secret) for _, secret in tokens]
            pool = Pool(arguments, members, GRACE_SECONDS, options.log, user=user)

            async def work() -> None:  # the server stops after the workers, so that they can report their last outcomes
                await pool.run()
                await pool.ended.wait()
                host.ended.set()

            working = asyncio.create_task(work())
            stop = pool.end if workers else host.ended.set
            on_signal(stop)
            stopping = asyncio.create_task(host.stop_on_request(stop))
            options.log.write("info", f"noetl server at {url}{f', {workers} workers' if workers else ''}")
            await host.ended.wait()
            working.cancel()
            stopping.cancel()
    finally:
        revoke(store, [name for name, _ in tokens])


@click.command("dev")
@port_option
@click.option(
    "--db", metavar="PATH", help="Database file; default NOETL_DB, then .noetl/noetl.db in the project folder."
)
@retention_option
@log_option
def dev_command(port: int, db: str | None, retention: float | None, log: Log) -> None:
    """Run the API and a worker in one process, for this machine, until Ctrl-C.

    Commands in the folder (or in the project: the nearest folder upwards with a `noetl.toml`) find it and its token by
    themselves; the address and the variables that it prints are for other folders. It keeps the token for its next
    start, in a file next to the database that only you can read. Task code runs as your user: everyone who can write a
    playbook here can do everything that you can do.
    """
    from noetl.server.listen import bound, url_of

    harden()
    collect_garbage()
    options = HostOptions(retention=retention, log=log, nats=nats_settings(), traces=traces_endpoint())
    with served(db) as store:
        listener = bound("127.0.0.1", port)
        if isinstance(store, SqliteStore):
            file = dev_file(str(store.path))
            secret = dev_token(store, file)
            with announced(file, secret, url_of(listener)):
                asyncio.run(_develop(store, listener, secret, options))
            return
        name, secret = make_token(store, "admin", DEV_TOKEN)
        try:
            asyncio.run(_develop(store, listener, secret, options))
        finally:
            revoke(store, [name])


def dev_token(store: Store, file: str) -> str:
    """The token of the last `noetl dev` on this database if it is still valid, else a new one."""
    secret, now = stored_token(file), SystemClock().now()
    token = store.access.token(hash_of(secret)) if secret else None
    if token is not None and token.is_valid(now) and (token.role, token.name) == ("admin", DEV_TOKEN):
        return secret
    revoke(store, [old.id for old in store.access.tokens() if old.name == DEV_TOKEN and old.revoked is None])
    return make_token(store, "admin", DEV_TOKEN)[1]


async def _develop(store: Store, listener: socket.socket, token: str, options: HostOptions) -> None:
    from noetl.server.listen import url_of

    url, clock, name = url_of(listener), SystemClock(), f"dev-{os.getpid()}"
    forbid_addresses()
    async with running(store, listener, options) as host:
        output = OutputBuffer(clock, max_lines=None)  # tools limit the output of a call, and every report stores it
        link = LocalLink(host.engine.dispatcher, output, DEV_POOL)
        worker = Worker(name, link, KINDS, clock, DEV_SLOTS, output.write)
        session = WorkerSession(name, DEV_POOL, DEV_SLOTS, socket.gethostname(), clock.now(), version=noetl.__version__)
        loop = WorkerLoop(worker, partial(options.log.write, "warning"), DEV_GRACE_SECONDS)
        heartbeats, on_error = host.engine.heartbeats, host.engine.on_error
        heartbeat = send_heartbeats(worker, link, session, heartbeats, on_error, loop.obey)
        stopping = asyncio.create_task(host.stop_on_request(host.ended.set))
        on_signal(lambda: loop.stop() if host.ended.is_set() else host.ended.set())
        working, beating = asyncio.create_task(loop.run()), asyncio.create_task(heartbeat)
        click.echo(f"noetl dev: {url}/#token={token}", err=True)
        click.echo(f"export NOETL_SERVER={url} NOETL_TOKEN={token}")
        await host.ended.wait()
        stopping.cancel()
        loop.stop()
        await asyncio.gather(working, return_exceptions=True)
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        try:
            await link.store_output()
        finally:
            await KINDS.close()


@contextmanager
def served(db: str | None) -> Iterator[Store]:
    """The database of a server; Conflict if a file has another server already."""
    with opened(db, "create") as store:
        if not isinstance(store, SqliteStore):
            yield store
        elif owner := Owner.acquire(store, server_of(store)):
            with owner:
                yield store
        else:
            raise Conflict(
                f"another server uses {settings(db).db}: stop it, or use Postgres, which several servers can share"
            )


@asynccontextmanager
async def running(store: Store, listener: socket.socket, options: HostOptions) -> AsyncIterator[RunningServer]:
    from noetl.server.app import create_app
    from noetl.server.listen import listen
    from noetl.server.maintenance import Pruner
    from noetl.server.pool_watch import PoolWatch

    bus = None
    if options.nats is not None:
        from noetl.nats.connection import NatsConnection

        bus = NatsConnection(options.nats, options.log.write)
    access = {"open_credential": opener(store), "safe": safe_of(store)}
    complete = replace(options, bus=bus, version=noetl.__version__, **access)
    app, ended = create_app(store, SystemClock(), complete), asyncio.Event()
    api: Api = app.api
    loops = [api.scheduler.run, api.health.run, PoolWatch(store, api.thread.ask, api.clock, options.log).run]
    if options.retention is not None:
        loops.append(Pruner(api.maintenance, api.clock, options.retention, api.telemetry).run)
    background = [asyncio.create_task(keep_running(0.0, loop, api.host.on_error)) for loop in loops]
    background.append(asyncio.create_task(api.host.run()))
    if bus is not None:
        background.append(asyncio.create_task(bus.run()))

    async def serve() -> None:
        try:
            await listen(app, listener, ended, proxies=options.proxies)
        except Exception as error:
            api.host.on_error(f"the HTTP server failed, shutting down: {described(error)}", None)
            raise NoetlError("the HTTP server failed; its error is in the log above") from error
        finally:
            ended.set()

    serving = asyncio.create_task(serve())
    try:
        yield RunningServer(api.host, ended, api.stop_requested)
    finally:
        api.stop()
        ended.set()
        await asyncio.wait([serving])
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        if api.telemetry.traces is not None:
            await api.telemetry.traces.close()
        api.close()
    serving.result()


def make_token(store: Store, role: Role, name: str) -> tuple[str, str]:
    """A new token: its id and its secret."""
    secret, token = new_token(role, name, SystemClock().now())
    store.access.add_token(token)
    return token.id, secret


def revoke(store: Store, ids: list[str]) -> None:
    with suppress(Exception):  # they are only valid for a server that no longer runs
        for id in ids:
            store.access.revoke_token(id, SystemClock().now())
