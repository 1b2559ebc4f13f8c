"""noetl runs diff: compare two runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import click
import msgspec

from noetl.cli.output import emit, output_option
from noetl.cli.target import client_option
from noetl.client.ports import Client, Json
from noetl.printable import printable

IGNORED = frozenset(["worker", "claim", "due", "duration_ms", "moved", "source_id", "action_id"])
"""Fields of events that differ between any two runs."""
COMPARED = ("status", "result", "error")


@click.command("diff")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@client_option
@output_option()
@click.pass_context
def diff_command(ctx: click.Context, a: str, b: str, client: Client, output: str | None) -> None:
    """Compare two runs: how they ended, their steps, their ctx, and the first event that differs. Exits with 1 if they
    differ. Times and workers are ignored."""
    first, second = client.runs.get(a), client.runs.get(b)
    difference = _first_difference(_events(client, first), _events(client, second))
    compared = _compare(first, second, difference)
    if output is not None:
        emit(compared, output)
    else:
        _print_diff(compared)
    ctx.exit(0 if compared["equal"] else 1)


def _events(client: Client, run: Json) -> Iterator[Json]:
    """The events without the fields that differ between any two runs; the id of a child depends on that of the run."""
    for page in client.runs.events(run["execution_id"]):
        for event in page:
            payload = {key: value for key, value in event["payload"].items() if key not in IGNORED}
            if payload.get("until") == "child":
                payload.pop("key", None)
            yield {"event_type": event["event_type"], "entity": event["step_run_id"] or event["entity_type"]} | payload


def _first_difference(a: Iterator[Json], b: Iterator[Json]) -> Json | None:
    """The first event that differs; null on the side whose log has ended."""
    for seq, (left, right) in enumerate(zip_longest(a, b), start=1):
        if left != right:
            return {"seq": seq, "a": left, "b": right}
    return None


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
    for key in COMPARED:
        if key in compared:
            _print_pair(key, compared[key])
    for part in ("ctx", "steps"):
        for key, pair in compared.get(part, {}).items():
            _print_pair(f"{part}.{key}", pair)
    if compared["first_difference"] is not None:
        _print_pair(f"event {compared['first_difference']['seq']}", compared["first_difference"])


def _print_pair(name: str, pair: Json) -> None:
    click.echo(click.style(printable(name), bold=True))
    for side, colour in (("a", "red"), ("b", "green")):
        click.echo(click.style(printable(f"  {side}: {msgspec.json.encode(pair[side]).decode()}"), fg=colour))
