"""noetl verify, noetl runs replay, noetl runs diff: check a log against the invariants of the engine, the stored state,
and another run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from time import monotonic

import click

from noetl.cli.options import client_and_output
from noetl.cli.output import compact, count, emit_or, format_duration
from noetl.cli.run import is_runnable
from noetl.cli.start import collect_garbage
from noetl.client.ports import Client, Json, OnProgress
from noetl.printable import printable
from noetl.runtime.catalog import read

REFRESH_SECONDS = 0.2
CLEAR_LINE = "\r\x1b[K"
IGNORED = frozenset(["worker", "claim", "due", "duration_ms", "moved", "source_id", "action_id"])
"""Fields of events that differ between any two runs."""
COMPARED = ("status", "result", "error")


@click.command("verify")
@click.argument("run", metavar="[RUN]", required=False)
@client_and_output
def command(run: str | None, client: Client, output: str | None) -> int:
    """Check the log of a run, or of all runs, against every invariant. Exits with 1 if one is violated.

    Logs are streamed, so memory does not grow with their size. On a terminal a progress line shows the events checked,
    events per second and the time left. A large log is checked by two processes.
    """
    collect_garbage()
    with progress_line() as show:
        checked = client.runs.verify(run, show if sys.stderr.isatty() else None)
    emit_or({key: checked[key] for key in ("executions", "violations")}, output, _print_checked)
    return 1 if checked["violations"] else 0


def _print_checked(checked: Json) -> None:
    print_violations(checked["violations"])
    click.echo(f"{count(checked['executions'], 'execution')}: {verdict(checked['violations'])}", err=True)


def print_violations(violations: list[Json], *, err: bool = False) -> None:
    for violation in violations:
        name = click.style(violation["invariant"], fg="red", bold=True)
        click.echo(
            f"{violation['execution_id']}.{violation['seq']}: {name}: {printable(violation['message'])}", err=err
        )


def verdict(violations: list[Json]) -> str:
    return count(len(violations), "violation") if violations else click.style("sound", fg="green")


@contextmanager
def progress_line() -> Iterator[OnProgress]:
    """A line on a terminal: `run 1 of 2: 1,250,000 of 4,000,000 events, 100,000/s, 27.5 s left`."""
    current, visible = "", False
    started = updated = monotonic()

    def show(title: str, events: int, total: int) -> None:
        nonlocal current, visible, started, updated
        now = monotonic()
        if title != current:
            current, started, updated = title, now, now
        if now - updated >= REFRESH_SECONDS:
            updated, visible, rate = now, True, events / (now - started)
            text = f"{events:,} of {total:,} events, {rate:,.0f}/s, {format_duration((total - events) / rate)} left"
            click.echo(f"{CLEAR_LINE}{title}: {text}", nl=False, err=True)

    try:
        yield show
    finally:
        if visible:
            click.echo(CLEAR_LINE, nl=False, err=True)


@click.command("replay")
@click.argument("run", metavar="RUN")
@click.option("--playbook", metavar="FILE", help="Decide the log again under this playbook.")
@client_and_output
def replay_command(run: str, playbook: str | None, client: Client, output: str | None) -> int:
    """Fold the log of a run again, and compare the state with the stored one; exits with 1 if they differ.

    With --playbook the log is decided again: inputs from outside are taken from it, and the decisions of the engine are
    compared, up to the first difference. No tool is called and nothing is written.
    """
    source = read(playbook) if playbook is not None else None
    if source is not None and not is_runnable(source, quiet=output is not None):
        return 3
    replayed = client.runs.replay(run, source)
    emit_or(replayed, output, _print_replayed)
    return 0 if replayed["equal"] else 1


def _print_replayed(replayed: Json) -> None:
    click.echo(f"{replayed['execution_id']}  {replayed['status']}, {replayed['events']:,} events")
    difference = replayed.get("first_difference")
    if difference is None:
        same = "same decisions" if "first_difference" in replayed else "equal to the stored state"
        click.echo(same if replayed["equal"] else click.style("differs from the stored state", fg="red"))
        return
    click.echo(printable(f"differs at event {difference['seq']}: {difference['message']}"))
    for name in ("logged", "found"):
        click.echo(printable(f"  {name}: {compact(difference[name])}"))


@click.command("diff")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@client_and_output
def diff_command(a: str, b: str, client: Client, output: str | None) -> int:
    """Compare two runs: how they ended, their steps, their ctx, and the first event that differs. Exits with 1 if they
    differ. Times and workers are ignored."""
    first, second = client.runs.get(a), client.runs.get(b)
    pairs = enumerate(zip_longest(_events(client, first), _events(client, second)), start=1)
    differences = ({"seq": seq, "a": event, "b": other} for seq, (event, other) in pairs if event != other)
    compared: Json = {"a": first["execution_id"], "b": second["execution_id"], "equal": True}
    compared |= {key: {"a": first[key], "b": second[key]} for key in COMPARED if first[key] != second[key]}
    for part in ("ctx", "steps"):
        ours, theirs = first[part], second[part]
        keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
        if keys:
            compared[part] = {key: {"a": ours.get(key), "b": theirs.get(key)} for key in keys}
    difference = next(differences, None)
    compared["equal"] = len(compared) == 3 and difference is None
    compared["first_difference"] = difference
    emit_or(compared, output, _print_diff)
    return 0 if compared["equal"] else 1


def _events(client: Client, run: Json) -> Iterator[Json]:
    """The events without the fields that differ between any two runs; the id of a child depends on that of the run."""
    for page in client.runs.events(run["execution_id"]):
        for event in page:
            payload = {key: value for key, value in event["payload"].items() if key not in IGNORED}
            if payload.get("until") == "child":
                payload.pop("key", None)
            yield {"event_type": event["event_type"], "entity": event["step_run_id"] or event["entity_type"]} | payload


def _print_diff(compared: Json) -> None:
    click.echo(f"a  {compared['a']}\nb  {compared['b']}")
    if compared["equal"]:
        click.echo("no difference")
    pairs = {key: compared[key] for key in COMPARED if key in compared}
    for part in ("ctx", "steps"):
        pairs |= {f"{part}.{key}": pair for key, pair in compared.get(part, {}).items()}
    if compared["first_difference"] is not None:
        pairs[f"event {compared['first_difference']['seq']}"] = compared["first_difference"]
    for name, pair in pairs.items():
        click.echo(click.style(printable(name), bold=True))
        for side, colour in (("a", "red"), ("b", "green")):
            click.echo(click.style(printable(f"  {side}: {compact(pair[side])}"), fg=colour))
