"""noetl runs fork, noetl runs retry: continue a run from one of its events, in a new run."""

from __future__ import annotations

from typing import Any

import click

from noetl.cli.inputs import scalar
from noetl.cli.progress import new_view
from noetl.cli.report import print_result
from noetl.cli.run import is_runnable
from noetl.cli.start import collect_garbage
from noetl.cli.target import client_and_output
from noetl.client.ports import Client, ForkRequest, Json
from noetl.errors import UsageError
from noetl.printable import printable
from noetl.runtime.catalog import read

playbook_option = click.option("--playbook", metavar="FILE", help="Continue with this edited playbook.")
ctx_option = click.option(
    "--set-ctx", "sets", multiple=True, metavar="KEY=VALUE", help="Set a key of ctx to a YAML scalar."
)


@click.command("fork")
@click.argument("run", metavar="RUN")
@click.option("--at", type=click.IntRange(min=1), metavar="SEQ", help="Last event that both runs share.")
@playbook_option
@ctx_option
@client_and_output
def fork_command(
    run: str, at: int | None, playbook: str | None, sets: tuple[str, ...], client: Client, output: str | None
) -> int:
    """Start a run with the first events of another one, and wait for its end as `noetl run` does.

    The other run does not change. Without --at, an open run is forked at its latest event. Events that were committed
    together are not split: the new run may share some more events. An edited playbook must contain every step that is
    active at that event.
    """
    return _fork(run, playbook, ForkRequest(_ctx(sets), at=at), client, output)


@click.command("retry")
@click.argument("run", metavar="RUN")
@playbook_option
@ctx_option
@client_and_output
def retry_command(run: str, playbook: str | None, sets: tuple[str, ...], client: Client, output: str | None) -> int:
    """Continue a failed or cancelled run in a new run, and wait for its end as `noetl run` does.

    It is a fork just before the failure: steps, tasks and items that succeeded do not run again. The failed task gets
    all its attempts again.
    """
    return _fork(run, playbook, ForkRequest(_ctx(sets), retry=True), client, output)


def _fork(run: str, playbook: str | None, fork: ForkRequest, client: Client, output: str | None) -> int:
    if playbook is not None:
        source = read(playbook)
        if not is_runnable(source, quiet=output is not None):
            return 3
        fork = fork._replace(source=source)
    collect_garbage()
    on_forked = _print_forked if output is None else lambda forked: None
    return print_result(client.runs.fork(run, fork, new_view(output), on_forked), output)


def _ctx(sets: tuple[str, ...]) -> dict[str, Any]:
    values = {}
    for text in sets:
        key, equals, value = text.partition("=")
        if not equals or not key or "." in key:
            raise UsageError(f"--set-ctx {text}: write it as KEY=VALUE, such as limit=5; KEY is a whole key of ctx")
        values[key] = scalar(value)
    return values


def _print_forked(forked: Json) -> None:
    """Print what comes from the other run, and what runs now."""
    click.echo(f"from {forked['source_id']}, up to its event {forked['source_seq']}", err=True)
    if forked["done"]:
        click.echo(printable(f"  kept: {', '.join(forked['done'])}"), err=True)
    for step in forked["again"]:
        text = f"{'again' if step['failed'] else 'goes on'}: {step['run']}"
        if step["items"] is not None:
            text += f", {step['items']} item{'s' * (step['items'] != 1)} left"
        elif step["task"]:
            text += f" at task {step['task']}"
        click.echo(printable(f"  {text}"), err=True)
