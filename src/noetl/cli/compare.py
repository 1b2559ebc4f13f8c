"""noetl runs replay, noetl runs diff: compare a run with its log folded again, or with another run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import click
import msgspec

from noetl.cli.output import emit_or
from noetl.cli.run import is_runnable
from noetl.cli.target import client_and_output
from noetl.client.ports import Client, Json
from noetl.printable import printable
from noetl.runtime.catalog import read

IGNORED = frozenset(["worker", "claim", "due", "duration_ms", "moved", "source_id", "action_id"])
"""Fields of events that differ between any two runs."""
COMPARED = ("status", "result", "error")


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
        click.echo(printable(f"  {name}: {msgspec.json.encode(difference[name]).decode()}"))


@click.command("diff")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@client_and_output
def diff_command(a: str, b: str, client: Client, output: str | None) -> int:
    """Compare two runs: how they ended, their steps, their ctx, and the first event that differs. Exits with 1 if they
    differ. Times and workers are ignored."""
    first, second = client.runs.get(a), client.runs.get(b)
    pairs = zip_longest(_events(client, first), _events(client, second))
    difference = next(
        ({"seq": seq, "a": left, "b": right} for seq, (left, right) in enumerate(pairs, start=1) if left != right), None
    )
    compared = _compare(first, second, difference)
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


def _compare(a: Json, b: Json, difference: Json | None) -> Json:
    """What differs, with the values of both; null where there is none."""
    compared: Json = {"a": a["execution_id"], "b": b["execution_id"], "equal": True}
    compared |= {key: {"a": a[key], "b": b[key]} for key in COMPARED if a[key] != b[key]}
    for part in ("ctx", "steps"):
        keys = [key for key in {**a[part], **b[part]} if a[part].get(key) != b[part].get(key)]
        if keys:
            compared[part] = {key: {"a": a[part].get(key), "b": b[part].get(key)} for key in keys}
    compared["equal"] = len(compared) == 3 and difference is None
    compared["first_difference"] = difference
    return compared


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
            click.echo(click.style(printable(f"  {side}: {msgspec.json.encode(pair[side]).decode()}"), fg=colour))
