"""noetl workers: list, drain and stop the workers of a server."""

from __future__ import annotations

import click

from noetl.cli.options import client_and_output
from noetl.cli.output import emit, pick, print_message
from noetl.client.client import Client, Items, no_worker
from noetl.errors import UsageError
from noetl.printable import printable
from noetl.store.store import WorkerDirective
from noetl.worker.terms import HEARTBEAT_SECONDS

POOL_COLUMNS = ("pool", "workers", "slots", "busy", "draining", "queued", "oldest")
COLUMNS = ("worker", "pool", "status", "busy", "slots", "host", "last_heard")


@click.group("workers")
def command() -> None:
    """List, drain and stop the workers of a server, or of the servers on a database."""


@command.command("list")
@client_and_output
def list_command(client: Client, output: str | None) -> None:
    """List pools with their queued step runs, and workers with their pool, their status and the number of busy slots.

    With -o, only the workers; `noetl server status -o json` has the pools.
    """
    workers = client.workers.list()
    if output is not None:
        emit(workers, output)
        return
    pools = client.workers.pools()
    emit(pick(pools, *POOL_COLUMNS), None)
    if pools and workers:
        click.echo()
    emit(pick(workers, *COLUMNS), None)
    if not workers:
        print_message("no workers")
    for pool in pools:
        if pool["queued"] and not pool["workers"]:
            print_message(printable(no_worker(pool["pool"], client.url)))


def _add_directive(directive: WorkerDirective, status: str, help: str) -> None:
    @command.command(directive, help=help)
    @click.argument("name", required=False)
    @click.option("--pool", metavar="NAME", help="All workers of a pool.")
    @client_and_output
    def direct_command(name: str | None, pool: str | None, client: Client, output: str | None) -> None:
        if (name is None) == (pool is None):
            raise UsageError(f"name a worker or a pool: `noetl workers {directive} NAME`, or --pool NAME")
        workers = client.workers.direct(directive, {"worker": name, "pool": pool})
        emit(workers, output, lambda workers: _print(workers, status))


def _print(workers: Items, status: str) -> None:
    for worker in workers:
        print_message(f"worker {worker['worker']} is {status}; the worker is notified within {HEARTBEAT_SECONDS:g} s")


_add_directive("drain", "draining", "Let a worker finish its step runs and claim no new ones.")
_add_directive("stop", "stopping", "Let a worker finish its running tasks, return the rest, and exit.")
