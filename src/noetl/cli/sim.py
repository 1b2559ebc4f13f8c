"""noetl sim: replay a seed of the simulation. Hidden, because it needs a checkout with the packages of its tests."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from noetl.errors import UsageError

CHECKOUT = Path(__file__).parents[3]


@click.command("sim", hidden=True)
@click.option("--seed", type=int, required=True, help="Seed to replay")
@click.option("--without", multiple=True, metavar="KIND", help="Kind of fault to leave out; repeatable")
@click.option("--at-most", multiple=True, metavar="KIND=N", help="Maximum number of faults of a kind; repeatable")
@click.option(
    "--block", "blocks", multiple=True, type=int, help="Block of the playbook to keep; default: all; repeatable"
)
@click.option("--shrink", is_flag=True, help="Find the smallest playbook and the fewest faults that still fail")
def command(
    seed: int, without: tuple[str, ...], at_most: tuple[str, ...], blocks: tuple[int, ...], shrink: bool
) -> None:
    """Simulate the whole system from a seed, and print its messages, events and faults in order of virtual time."""
    limits = dict(map(_limit, at_most))
    story = _module("tests.sim").simulate(seed, without, limits, blocks)
    click.echo(str(story))
    if shrink and story.problems:
        click.echo(str(_module("tests.sim.shrink").shrink(seed)))
    sys.exit(1 if story.problems else 0)


def _limit(text: str) -> tuple[str, int]:
    kind, _, count = text.partition("=")
    if not count.isdigit():
        raise UsageError(f"--at-most must be KIND=N, as in `--at-most 'lost request=2'` (got {text!r})")
    return kind, int(count)


def _module(name: str) -> Any:
    """A module of the tests; UsageError where they cannot be run."""
    if not (CHECKOUT / "tests" / "sim").is_dir():
        raise UsageError("`noetl sim` replays a test of noetl: run it in a checkout of the sources, after `make setup`")
    sys.path.insert(0, str(CHECKOUT))
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise UsageError(f"`noetl sim` needs the package {error.name}: install it with `make setup`") from error
    finally:
        sys.path.remove(str(CHECKOUT))
