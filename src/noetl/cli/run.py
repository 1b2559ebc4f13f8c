"""noetl run FILE: run a playbook, wait for its end, and exit by its outcome."""

from __future__ import annotations

import sys

import click

from noetl.cli.inputs import payload_options
from noetl.cli.output import output_option
from noetl.cli.progress import new_view
from noetl.cli.report import excerpt, print_problems, print_result, summary
from noetl.cli.start import collect_garbage
from noetl.cli.target import client_option
from noetl.client.ports import Client, Json, Start
from noetl.runtime.catalog import Source, read
from noetl.runtime.obstacles import Obstacle, obstacles
from noetl.settings import nats_settings


@click.command("run")
@click.argument("file", metavar="FILE")
@payload_options
@click.option("--verify", is_flag=True, help="Check the log against every invariant when the run ends.")
@client_option
@output_option()
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    payload: Json,
    verify: bool,
    client: Client,
    output: str | None,
) -> None:
    """Run a playbook, wait for its end, and print its result. `-` reads standard input.

    The payload is laid over the playbook's workload. The exit code is 0 if the run succeeded, 1 if it failed or was
    cancelled, 3 if the playbook cannot run, and 130 after Ctrl-C: then the run can be resumed. With `--verify` it is
    also 1 if the log violates an invariant of the engine; the violations are printed to stderr. Include them in a bug
    report.
    """
    source = read(file)
    if not is_runnable(source, quiet=output is not None, remote=not client.runs.in_process):
        ctx.exit(3)
    collect_garbage()
    run = client.runs.run(Start(payload, source), new_view(output))
    code = print_result(run, output)
    if verify:
        from noetl.cli.verify import print_violations, verdict

        violations = client.runs.verify(run["execution_id"])["violations"]
        print_violations(violations, err=True)
        click.echo(f"log: {verdict(violations)}", err=True)
        code = 1 if violations else code
    ctx.exit(code)


def is_runnable(source: Source, *, quiet: bool, remote: bool = False) -> bool:
    """Whether the playbook can run; if not, every reason is printed. A server checks by itself whether it has NATS."""
    problems = source.loaded.problems
    if source.loaded.playbook is None:
        print_problems(problems, stream=sys.stderr)
        click.echo(f"{source.shown}: {summary(problems)}; nothing was run", err=True)
        return False
    if not quiet:
        print_problems(problems, stream=sys.stderr)
    missing = list(obstacles(source.loaded.playbook, nats=remote or nats_settings() is not None))
    for obstacle in missing:
        click.echo(_obstacle_text(source, obstacle), err=True)
    return not missing


def _obstacle_text(source: Source, obstacle: Obstacle) -> str:
    mark = source.places.get(obstacle.place) or source.places.get(obstacle.place.partition("/")[0])
    where = f"{source.shown}:{mark.line}:{mark.column}" if mark else source.shown
    title = click.style("error", fg="red", bold=True)
    text = f"{click.style(where, bold=True)}: {title}: {obstacle.reason}"
    return "\n".join([text, *(excerpt(mark.line, mark.column, source.line(mark.line), "red") if mark else [])])
