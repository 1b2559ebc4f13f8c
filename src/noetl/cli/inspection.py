"""noetl verify, noetl explain, noetl runs replay, noetl runs diff: look into the log of a run, to check it against the
invariants of the engine, the stored state and another run, and to explain the decisions about a step."""

from __future__ import annotations

import re
import shlex
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

import click

from noetl.cli.options import client_and_output, client_option
from noetl.cli.output import (
    activity_lines,
    compact,
    continued_lines,
    emit,
    error_text,
    format_duration,
    output_option,
    print_message,
    target_options_text,
)
from noetl.cli.run import is_runnable
from noetl.cli.start import collect_garbage
from noetl.client.client import Client, ExplainArgs, Json, OnProgress
from noetl.engine.history.same_data import same_data
from noetl.errors import UsageError
from noetl.model.status import ENDED
from noetl.printable import printable
from noetl.problem_pages import problem_page
from noetl.runtime.catalog import read
from noetl.wording import counted, cut

if TYPE_CHECKING:
    from noetl.runtime.audit import AuditProgress

REFRESH_SECONDS = 0.2
CLEAR_LINE = "\r\x1b[K"
COMPARED = ("status", "result", "error")
VERDICTS = {"matched": "green", "not matched": "yellow", "not reached": "bright_black", "error": "red"}
MAX_CHARACTERS = 100
MAX_STEPS = 5  # how many running or waiting steps are explained if none is named
CODE = re.compile(r"NTL\d{3}", re.IGNORECASE)


@click.command("verify")
@click.argument("run", metavar="[RUN]", required=False)
@client_and_output
def verify_command(run: str | None, client: Client, output: str | None) -> int:
    """Check the log of a run, or of all runs, against every invariant. Exits with 1 if one is violated.

    Logs are streamed, so memory does not grow with their size. On a terminal a progress line shows the events checked,
    events per second and the time left. A large log is checked by two processes.
    """
    collect_garbage()
    with progress_line() as show:
        checked = client.runs.verify(run, show if sys.stderr.isatty() else None)
    executions, violations = checked["executions"], checked["violations"]
    if output is not None:
        emit({"executions": executions, "violations": violations}, output)
    else:
        print_violations(violations)
        print_message(f"{counted(executions, 'execution')}: {verdict(violations)}")
    return 1 if violations else 0


def print_violations(violations: list[Json], *, err: bool = False) -> None:
    for violation in violations:
        place, name = f"{violation['execution_id']}.{violation['seq']}", violation["invariant"]
        click.echo(f"{place}: {click.style(name, fg='red', bold=True)}: {printable(violation['message'])}", err=err)


def verdict(violations: list[Json]) -> str:
    return counted(len(violations), "violation") if violations else click.style("sound", fg="green")


@contextmanager
def progress_line() -> Iterator[OnProgress]:
    """A line on a terminal: `run 1 of 2: 1,250,000 of 4,000,000 events, 100,000/s, 27.5 s left`."""
    current, visible = "", False
    started = updated = monotonic()

    def show(title: str, progress: AuditProgress) -> None:
        nonlocal current, visible, started, updated
        now, events, total = monotonic(), progress.events, progress.total
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
    emit(replayed, output, _print_replayed)
    return 0 if replayed["equal"] else 1


def _print_replayed(replayed: Json) -> None:
    click.echo(f"{replayed['execution_id']}  {replayed['status']}, {counted(replayed['events'], 'event')}")
    difference = replayed.get("first_difference")
    if difference is None:
        same = "same decisions" if "first_difference" in replayed else "equal to the stored state"
        click.echo(same if replayed["equal"] else click.style("differs from the stored state", fg="red"))
        return
    click.echo(printable(f"differs at event {difference['seq']}: {difference['message']}"))
    for name in ("logged", "replayed"):
        click.echo(printable(f"  {name}: {compact(difference[name])}"))


@click.command("diff")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@client_and_output
def diff_command(a: str, b: str, client: Client, output: str | None) -> int:
    """Compare two runs: outcome, steps, ctx, and the first event that differs. Exits with 1 if they differ. Times,
    workers and users are ignored, and so are the beginning of a fork and the work that it starts again."""
    diff = client.runs.diff(a, b)
    compared = {key: diff[key] for key in ("a", "b", "equal")}
    compared |= {key: diff[key] for key in COMPARED if not same_data(diff[key]["a"], diff[key]["b"])}
    steps = {step["step"]: {"a": step["a"], "b": step["b"]} for step in diff["steps"] if step["differs"]}
    compared |= {part: values for part, values in (("ctx", diff["ctx"]), ("steps", steps)) if values}
    first = diff["first_difference"]
    compared["first_difference"] = first and {"seq": first["a_seq"] or first["b_seq"], **first}
    emit(compared, output, _print_diff)
    return 0 if compared["equal"] else 1


def _print_diff(compared: Json) -> None:
    click.echo(f"a  {compared['a']}\nb  {compared['b']}")
    if compared["equal"]:
        click.echo("no difference")
    pairs = {key: compared[key] for key in COMPARED if key in compared}
    for part in ("ctx", "steps"):
        pairs |= {f"{part}.{key}": pair for key, pair in compared.get(part, {}).items()}
    if (first := compared["first_difference"]) is not None:
        is_shifted = first["a"] and first["b"] and first["a_seq"] != first["b_seq"]
        pairs[f"event {first['seq']}" + (f" of a, {first['b_seq']} of b" if is_shifted else "")] = first
    for name, pair in pairs.items():
        click.echo(click.style(printable(name), bold=True))
        for side, colour in (("a", "red"), ("b", "green")):
            click.echo(click.style(printable(f"  {side}: {compact(pair[side])}"), fg=colour))


@click.command("explain")
@click.argument("run", metavar="RUN|CODE")
@click.argument("step", required=False, metavar="[STEP]")
@click.option("--run", "step_run", metavar="ID", help="Explain only one run of the step, such as fetch#2.")
@click.option("--item", type=click.IntRange(0), metavar="INDEX", help="Explain only this item of the loop.")
@click.option("--at", type=click.IntRange(1), metavar="SEQ", help="Explain the state after this event.")
@click.option("--seq", type=click.IntRange(1), metavar="SEQ", help="Explain only this event, with the task's inputs.")
@click.option(
    "--limit",
    type=click.IntRange(1, 200),
    default=20,
    show_default=True,
    help="Maximum number of decisions.",
)
@client_option
@output_option("json", "yaml")
def explain_command(
    run: str,
    step: str | None,
    step_run: str | None,
    item: int | None,
    at: int | None,
    seq: int | None,
    limit: int,
    client: Client,
    output: str | None,
) -> None:
    """Explain the decisions about a step of a run: every arc, rule and gate that was evaluated, with its values.

    Guards are evaluated again on the state at that time. It also shows why a token is held, what a join waits for, and
    why a step never ran. STEP may be a run of a step, such as fetch#2. Without STEP it explains the step that failed,
    or the steps that run or wait. RUN is as in `noetl runs`. With the code of a problem, such as NTL308, it prints the
    page of that problem.
    """
    if CODE.fullmatch(run) and step is None:
        page = {"code": run.upper(), "text": problem_page(run.upper())}
        emit(page, output, lambda page: click.echo(page["text"], nl=False))
        return
    if seq is not None and (step, step_run, item, at) != (None, None, None, None):
        raise UsageError("--seq names one event: it takes no step, --run, --item or --at")
    if step is None and seq is None:
        if (step_run, item, at) != (None, None, None):
            raise UsageError("--run, --item and --at need a step: noetl explain RUN STEP")
        _explain_run(client.runs.get(run), client, output)
        return
    if step is not None and step_run is None and "#" in step and step.rpartition("#")[2].isdigit():
        step, step_run = step.rpartition("#")[0], step
    emit(client.runs.explain(run, ExplainArgs(step, step_run, item, seq, at, limit)), output, _print_explanation)


def _explain_run(record: Json, client: Client, output: str | None) -> None:
    """Explain the step that failed, or the steps that run or wait."""
    error = record["error"]
    busy = [entry["step"] for entry in (*record["running"], *record["waiting"])]
    busy += [name for name, step in record["steps"].items() if step["status"] not in ENDED]
    steps = [error["step"]] if error is not None and error["step"] else list(dict.fromkeys(busy))[:MAX_STEPS]
    explained = [client.runs.explain(record["execution_id"], ExplainArgs(step)) for step in steps]
    if output is not None:
        about = {key: record[key] for key in ("execution_id", "status", "error", "running", "waiting")}
        emit(about | {"steps": explained}, output)
        return
    click.echo(f"{printable(record['name'])}  {record['status']}  {record['execution_id']}")
    if record["orphaned"]:
        command = shlex.join(["noetl", "runs", "resume", record["execution_id"]]) + target_options_text()
        click.echo(f"its process has ended: `{command}` continues it")
    for line in activity_lines(record, target_options_text()):
        click.echo(line)
    if error is not None:
        click.echo(error_text(error, record["error_line"]))
    for line in continued_lines(record):
        click.echo(line)
    for explanation in explained:
        click.echo()
        _print_explanation(explanation)
    if not explained:
        for step in list(record["steps"])[:1]:
            command = shlex.join(["noetl", "explain", record["execution_id"], step]) + target_options_text()
            click.echo(printable(f"`{command}` explains one of its steps: {', '.join(record['steps'])}"))


def _print_explanation(explanation: Json) -> None:
    place = printable(f"{explanation['file']}:{explanation['line']}" if explanation["line"] else explanation["file"])
    step, status = click.style(printable(explanation["step"]), bold=True), explanation["status"] or "never entered"
    click.echo(f"{step}  {status}, {counted(explanation['runs'], 'run')}  {place}")
    for sentence in explanation["stands"]:
        click.echo(f"  {printable(sentence)}")
    if explanation["next"] is not None:
        earlier = f"decisions before event {explanation['next']:,} are left out"
        click.echo(f"  ({earlier}: --limit shows more of them, --at an earlier state)")
    for decision in explanation["decisions"]:
        click.echo(f"\n{click.style(str(decision['seq']), fg='cyan')}  {printable(decision['says'])}")
        if decision["error"] is not None:
            click.echo(textwrap.indent(error_text(decision["error"]), " " * 4))
        for reason in decision["reasons"]:
            _print_reason(reason, "always" if decision["kind"] == "arcs" else "else")
        if decision["differs"]:
            outcome = printable(decision["differs"])
            differs = f"evaluated again, the outcome differs ({outcome}): a guard reads the clock, or saw other data"
            click.echo(f"    {click.style(differs, fg='yellow')}")
        for name, value in (decision["inputs"] or {}).items():
            click.echo(printable(f"    {name}: {cut(compact(value), MAX_CHARACTERS)}"))


def _print_reason(reason: Json, unguarded: str) -> None:
    place = printable(f"{reason['file']}:{reason['line']}" if reason["line"] else "-")
    verdict = click.style(f"{reason['verdict']:<11}", fg=VERDICTS[reason["verdict"]])
    guard = f"when {cut(' '.join(reason['when'].split()), MAX_CHARACTERS)}" if reason["when"] else unguarded
    leads = printable(f"{reason['leads_to']}  {guard}")
    click.echo(f"    {verdict}  {leads}  {click.style(place, fg='bright_black')}")
    notes = [f"{name} = {cut(compact(value), MAX_CHARACTERS)}" for name, value in reason["values"].items()]
    notes += [f"{name} is missing" for name in reason["missing"]]
    for note in [*notes, reason["note"]] if reason["note"] else notes:
        click.echo(printable(f"{' ' * 19}{note}"))
