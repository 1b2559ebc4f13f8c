"""noetl explain RUN STEP: why each rule and arc matched or did not, with the values it saw."""

from __future__ import annotations

import click

from noetl.cli.options import client_option
from noetl.cli.output import compact, count, emit_or, output_option
from noetl.client.ports import Client, Json
from noetl.printable import printable

COLOURS = {"matched": "green", "not matched": "yellow", "not reached": "bright_black", "error": "red"}
MAX_CHARACTERS = 100


@click.command("explain")
@click.argument("run", metavar="RUN")
@click.argument("step")
@click.option("--run", "step_run", metavar="ID", help="Explain only one run of the step, such as fetch#2.")
@client_option
@output_option("json", "yaml")
def command(run: str, step: str, step_run: str | None, client: Client, output: str | None) -> None:
    """Explain why a step of a run went as it did: every arc, rule and gate that was evaluated, with its values.

    Guards are evaluated again on the state at that time. It also shows why a token is held, what a join waits for, and
    why a step never ran. STEP may be a run of a step, such as fetch#2. RUN is an id, the beginning of one, or `last`.
    """
    if step_run is None and "#" in step and step.rpartition("#")[2].isdigit():
        step, step_run = step.rpartition("#")[0], step
    emit_or(client.runs.explain(run, step, step_run), output, _print_explanation)


def _print_explanation(explanation: Json) -> None:
    place = printable(f"{explanation['file']}:{explanation['line']}" if explanation["line"] else explanation["file"])
    step, status = click.style(printable(explanation["step"]), bold=True), explanation["status"] or "never entered"
    click.echo(f"{step}  {status}, {count(explanation['runs'], 'run')}  {place}")
    for sentence in explanation["stands"]:
        click.echo(f"  {printable(sentence)}")
    if explanation["left_out"]:
        click.echo(f"  ({explanation['left_out']:,} earlier decisions are left out)")
    for decision in explanation["decisions"]:
        click.echo(f"\n{click.style(str(decision['seq']), fg='cyan')}  {printable(decision['says'])}")
        for reason in decision["reasons"]:
            _print_reason(reason, "always" if decision["kind"] == "arcs" else "else")
        if decision["differs"]:
            outcome = printable(decision["differs"])
            differs = f"evaluated again, the outcome differs ({outcome}): a guard reads the clock, or saw other data"
            click.echo(f"    {click.style(differs, fg='yellow')}")


def _print_reason(reason: Json, unguarded: str) -> None:
    place = printable(f"{reason['file']}:{reason['line']}" if reason["line"] else "-")
    verdict = click.style(f"{reason['verdict']:<11}", fg=COLOURS[reason["verdict"]])
    guard = f"when {_cut(' '.join(reason['when'].split()))}" if reason["when"] else unguarded
    leads = printable(f"{reason['leads_to']}  {guard}")
    click.echo(f"    {verdict}  {leads}  {click.style(place, fg='bright_black')}")
    notes = [f"{name} = {_cut(compact(value))}" for name, value in reason["values"].items()]
    notes += [f"{name} is not there" for name in reason["missing"]]
    for note in [*notes, reason["note"]] if reason["note"] else notes:
        click.echo(printable(f"{' ' * 19}{note}"))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 4]} ..."
