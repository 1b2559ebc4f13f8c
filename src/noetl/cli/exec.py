"""noetl exec PATH[@VERSION]: run a registered playbook."""

from __future__ import annotations

import click

from noetl.cli.inputs import payload_options, split_version
from noetl.cli.output import emit_or_echo, output_option
from noetl.cli.progress import new_view
from noetl.cli.report import print_result
from noetl.cli.start import collect_garbage
from noetl.cli.target import client_option
from noetl.client.ports import Client, Json, Start


@click.command("exec")
@click.argument("path", metavar="PATH[@VERSION]")
@payload_options
@click.option("--wait", is_flag=True, help="Wait for the end of the run, and exit by its outcome.")
@click.option("--timeout", type=click.FloatRange(0), metavar="SECONDS", help="Maximum time to wait; then exit 124.")
@client_option
@output_option()
@click.pass_context
def command(
    ctx: click.Context,
    path: str,
    payload: Json,
    wait: bool,
    timeout: float | None,
    client: Client,
    output: str | None,
) -> None:
    """Run a registered playbook. A server starts it and its id is printed; --wait waits for its end.

    Without a server it runs in this process, as with `noetl run`.
    """
    name, version = split_version(path)
    start = Start(payload, path=name, version=version)
    if client.runs.in_process or wait or timeout is not None:
        collect_garbage()
        ctx.exit(print_result(client.runs.run(start, new_view(output), timeout), output))
    execution = client.runs.start(start)
    emit_or_echo({"execution_id": execution}, output, execution)
