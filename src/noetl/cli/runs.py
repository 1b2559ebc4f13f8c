"""noetl runs ...: list and show runs, follow them, control them, fork them, export them, and remove old ones."""

from __future__ import annotations

import codecs
import os
import stat
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import wraps
from math import inf
from typing import Any, get_args

import click

from noetl.cli.inspection import diff_command, replay_command
from noetl.cli.options import (
    SinceType,
    StatusesType,
    client_and_output,
    client_option,
    data_or_file,
    payload_options,
    since_option,
    timeout_option,
    yaml_value,
)
from noetl.cli.output import (
    RESULT,
    actor_text,
    emit,
    format_duration,
    pick,
    print_message,
    print_result,
    status_text,
)
from noetl.cli.progress import EventLines, new_view
from noetl.cli.run import is_runnable
from noetl.cli.show import logs_command, result_command, show_command
from noetl.cli.start import collect_garbage
from noetl.client.client import PAGE, Client, Items, Json, NewRun, RunFilter
from noetl.errors import NoetlError, NotFound, UsageError
from noetl.model.duration import seconds
from noetl.model.event_filter import EventFilter, Level, types_of
from noetl.model.identity import number_of, uuid7
from noetl.model.status import STATUSES
from noetl.printable import printable, printable_json
from noetl.runtime.activity import WaitKind
from noetl.runtime.catalog import read
from noetl.settings import DEFAULT_RETENTION
from noetl.wording import counted

LIST_FIELDS = (
    *("execution_id", "name", "path", "status", "started", "ended", "duration_ms", "parent", "continued_errors"),
    *("activity", "progress", "failed_items", "waits", "error", "trigger", "version", "source", "local", "events"),
)
MAX_CHILDREN = 1_000  # how many runs are read to find the children of the listed ones
AGE_HELP = "Minimum time since the end of a run."

run_argument = click.argument("run", metavar="RUN")
limit_option = click.option(
    "--limit", type=click.IntRange(min=1), default=PAGE, show_default=True, help="Maximum number of runs to list."
)


@click.group("runs")
def command() -> None:
    """List, follow and control runs. RUN is an id, the beginning of one, `last`, `last~1` for the one before it, or
    `last:NAME` for the last run of a playbook."""


@command.command("list")
@click.option(
    "--status",
    "statuses",
    type=StatusesType(),
    metavar="STATUS,...",
    multiple=True,
    help=f"List only runs with one of these statuses: {', '.join(STATUSES)}.",
)
@click.option("--name", metavar="NAME", help="List only runs of playbooks with this name.")
@click.option("--path", metavar="PATH", help="List only runs of the playbook with this path; 'shop/*' for all below.")
@click.option("--waits", type=click.Choice(get_args(WaitKind)), help="List only runs that wait for this.")
@click.option("--parent", metavar="RUN", help="List only the child runs of this run.")
@since_option("runs that started")
@click.option(
    "--until", default=inf, type=SinceType(), metavar="AGE|TIME", help="List only runs that started before this time."
)
@limit_option
@client_and_output
def list_command(
    statuses: tuple[tuple[str, ...], ...], limit: int, client: Client, output: str | None, **filters: Any
) -> None:
    """List runs by start time, newest first, with child runs below their parent.

    Without --status, --name, --path, --waits and --parent the limit counts only runs without a parent.
    """
    filter = RunFilter(statuses=tuple(status for group in statuses for status in group), **filters)
    if any((filter.statuses, filter.name, filter.path, filter.waits, filter.parent)):
        candidates = client.runs.list(filter, limit)
        listed = {run["execution_id"] for run in candidates}
        runs = [run for run in candidates if run["parent"] not in listed]
    else:
        runs, candidates = client.runs.list(filter._replace(top=True), limit), []
        if runs:
            oldest = datetime.fromisoformat(runs[-1]["started"]).timestamp()  # no child starts before its parent
            candidates = client.runs.list(RunFilter(since=oldest, until=filter.until), MAX_CHILDREN)
    rows = list(_nested(runs, candidates))
    if output is not None:
        emit(pick((run for run, _ in rows), *LIST_FIELDS), output)
    elif rows:
        emit([_row(run, depth) for run, depth in rows], "table")
    else:
        print_message("no runs")


def _nested(runs: Items, candidates: Items) -> Iterator[tuple[Json, int]]:
    """Each run with its depth, followed by its children among the candidates, the earliest first."""
    children: dict[str, Items] = {}
    for run in reversed(candidates):
        children.setdefault(run["parent"] or "", []).append(run)
    remaining = [(run, 0) for run in reversed(runs)]
    while remaining:
        run, depth = remaining.pop()
        yield run, depth
        remaining += [(child, depth + 1) for child in reversed(children.get(run["execution_id"], []))]


def _row(run: Json, depth: int) -> Json:
    started = datetime.fromisoformat(run["started"]).astimezone()
    return {
        "run": run["execution_id"],
        "name": "  " * depth + run["name"],
        "status": status_text(run),
        "started": f"{started:%Y-%m-%d %H:%M:%S}",
        "activity": run["activity"],
        "took": format_duration(run["duration_ms"] / 1000),
    }


@command.command("events")
@run_argument
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Print only events after this one.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Print only events of this type, e.g. 'step.*'.")
@click.option("--level", type=click.Choice(["step", "task", "event"]), default="event", help="Level of detail.")
@click.option("--run", "step_run", default="", metavar="STEP#N", help="Print only events of this step run.")
@click.option("--item", type=click.IntRange(min=0), metavar="INDEX", help="Print only events of this item of --run.")
@click.option("--grep", "text", default="", metavar="TEXT", help="Print only events with this text.")
@client_and_output
def events_command(
    run: str,
    after: int,
    types: tuple[str, ...],
    level: Level,
    step_run: str,
    item: int | None,
    text: str,
    client: Client,
    output: str | None,
) -> None:
    """Print the log of a run; `-o jsonl` prints one envelope per line."""
    if item is not None and not step_run:
        raise UsageError("--item requires --run, the step run with the loop, e.g. --run 'fetch#1'")
    if step_run and not number_of(step_run):
        raise UsageError(f"--run {step_run}: write the number of the step run, too, such as '{step_run}#1'")
    if step_run and not any(client.runs.events(run, 0, EventFilter(run=step_run, item=item))):
        part = step_run if item is None else f"{step_run}[{item}]"
        raise NotFound(f"{part} has no events: `noetl runs show {run}` lists the steps with the number of their runs")
    pages = client.runs.events(run, after, EventFilter(types_of(types, level), step_run, item, text))
    if output == "jsonl":
        for page in pages:
            emit(page, output)
        return
    events = [event for page in pages for event in page]
    if output is not None:
        emit(events, output)
        return
    columns = ("seq", "timestamp", "event_type", "entity_id", "status", "actor")
    actors = ({"actor": actor_text(event["actor"]) if event["actor"] else None} for event in events)
    emit(pick([event | actor for event, actor in zip(events, actors, strict=True)], *columns), "table")


@command.command("watch")
@run_argument
@timeout_option
@client_and_output
def watch_command(run: str, timeout: float | None, client: Client, output: str | None) -> int:
    """Follow a run until it ends, then print its result; `-o jsonl` prints its events as they come."""
    if output == "jsonl":
        return 0 if client.runs.watch(run, EventLines(), timeout)["status"] == "succeeded" else 1
    return print_result(client, client.runs.watch(run, new_view(output), timeout), output)


@command.command("cancel")
@run_argument
@click.option("--reason", default="", help="Reason, which is kept in the log.")
@client_and_output
def cancel_command(run: str, reason: str, client: Client, output: str | None) -> None:
    """Stop a run for good, and the runs it has started."""
    emit(client.runs.act(run, "cancel", {"reason": reason}), output, _print_status)


@command.command("pause")
@run_argument
@client_and_output
def pause_command(run: str, client: Client, output: str | None) -> None:
    """Start no new tasks; running tasks finish. `resume` continues the run."""
    emit(client.runs.act(run, "pause", {}), output, _print_status)


def _print_status(run: Json) -> None:
    click.echo(f"{run['execution_id']} {run['status']}")


@command.command("signal")
@run_argument
@click.argument("name")
@click.option("--data", metavar="DATA|@FILE", help="Payload of the signal, in JSON or YAML.")
@click.option("--id", help="Id of the signal: a second signal with the same id is ignored.")
@click.option("--if-awaited", is_flag=True, help="Drop the signal if nothing waits for it now; otherwise it is kept.")
@client_and_output
def signal_command(
    run: str, name: str, data: str | None, id: str | None, if_awaited: bool, client: Client, output: str | None
) -> None:
    """Send a signal to a run.

    Prints `accepted`, `duplicate` for a known id, `late` if the run has ended, or `dropped` by `--if-awaited`.
    """
    body = {"name": name, "id": id or uuid7(time.time(), os.urandom(8)), "payload": data_or_file(data, "--data")}
    emit(client.runs.signal(run, body | {"keep": not if_awaited}), output, _print_signalled)


def _print_signalled(signalled: Json) -> None:
    waiting = f" (waiting: {', '.join(signalled['awaited'])})" if signalled["awaited"] else ""
    note = f", nobody waits for {signalled['name']!r} yet{waiting}" if signalled["pending"] else ""
    click.echo(printable(signalled["answer"] + note))
    if signalled["answer"] == "late":
        print_message("the run has ended, so nothing receives the signal")


@command.command("resume")
@click.argument("run", metavar="[RUN]", required=False)
@click.option("--all", "every", is_flag=True, help="Resume every run that is paused or whose process is gone.")
@client_and_output
def resume_command(run: str | None, every: bool, client: Client, output: str | None) -> int:
    """Continue a run that was paused or whose process is gone, and wait for its end as `noetl run` does."""
    if (run is None) is not every:
        raise UsageError("name a RUN, or use --all")
    collect_garbage()
    if run is not None:
        return print_result(client, client.runs.resume(run, lambda: new_view(output)), output)
    ended: Items = []

    def on_end(run: Json) -> None:
        ended.append({key: run[key] for key in RESULT})
        if output is None:
            print_result(client, run, None)

    try:
        if not client.runs.resume_all(lambda: new_view(output), on_end) and output is None:
            print_message("nothing to resume")
    finally:
        if output is not None:
            emit(ended, output)
    return 0 if all(run["status"] == "succeeded" for run in ended) else 1


@command.command("prune")
@click.option("--older-than", default=DEFAULT_RETENTION, show_default=True, metavar="DURATION", help=AGE_HELP)
@click.option("--dry-run", is_flag=True, help="List the runs that would be removed, and remove none.")
@client_and_output
def prune_command(older_than: str, dry_run: bool, client: Client, output: str | None) -> None:
    """Remove runs that ended long ago, with their logs, results and output.

    Open runs stay, and so do their parents and children. Results that a remaining run refers to are kept, and so is all
    content that is younger than a day. Servers prune by themselves after 30 days (`noetl server --retention`), and so
    does `noetl run`, a few runs at a time.
    """
    age = 0.0 if older_than == "0" else seconds(older_than)
    if age is None:
        raise UsageError(f"--older-than {older_than}: write a duration such as 12h or 30d")
    removed, runs = client.runs.prune(age, dry_run)
    if output is not None:
        emit({"dry_run": dry_run, "removed": removed, "runs": pick(runs, *LIST_FIELDS)}, output)
    elif dry_run:
        emit(pick(runs, "execution_id", "name", "status", "ended"), "table")
        print_message(f"{counted(len(runs), 'run')} would be removed")
    else:
        print_message(f"{counted(removed, 'run')} removed")


def fork_options(function: Callable[..., Json]) -> Callable[..., None]:
    """The argument and the options of a verb that forks a run; the function returns the body of
    its own options."""

    @run_argument
    @click.option("--playbook", metavar="FILE", help="Continue with this edited playbook.")
    @click.option("--set-ctx", "ctx", multiple=True, metavar="KEY=VALUE", help="Set a key of ctx to a YAML value.")
    @payload_options
    @click.option("--dry-run", is_flag=True, help="Only print the steps that would be kept or run again.")
    @client_and_output
    @wraps(function)
    def verb(
        run: str,
        playbook: str | None,
        ctx: tuple[str, ...],
        inputs: Json,
        dry_run: bool,
        client: Client,
        output: str | None,
        **selection: Any,
    ) -> int:
        source = read(playbook) if playbook is not None else None
        body = {"ctx": _ctx(ctx), **function(**selection), **inputs}
        if source is not None and not is_runnable(source, quiet=output is not None):
            return 3
        if dry_run:
            emit(client.runs.preview_fork(run, NewRun(body, source)), output, _print_preview)
            return 0
        collect_garbage()
        on_forked = _print_forked if output is None else lambda forked: None
        return print_result(client, client.runs.fork(run, NewRun(body, source), new_view(output), on_forked), output)

    return verb


@command.command("fork")
@click.option("--at", type=click.IntRange(min=1), metavar="SEQ", help="Last event that both runs share.")
@fork_options
def fork_command(at: int | None) -> Json:
    """Start a run with the first events of another one, and wait for its end as `noetl run` does.

    The other run does not change. Without --at, an open run is forked at its latest event. Events that were committed
    together are not split: the new run may share some more events. An edited playbook must contain every step that is
    active at that event.
    """
    return {"at": at}


@command.command("retry")
@click.option("--from", "step", metavar="STEP", help="Step to begin with: its last run, or one such as load#2.")
@click.option(
    "--failed-items", is_flag=True, help="Run the failed items of a finished loop again, and continue from there."
)
@fork_options
def retry_command(step: str | None, failed_items: bool) -> Json:
    """Continue a run that has ended in a new run, and wait for its end as `noetl run` does.

    It is a fork just before the failure: steps, tasks and items that succeeded do not run again. The failed task gets
    all its attempts again. With --failed-items it reopens the first loop that ended with failed items, or that of the
    step named by --from; also if the run succeeded.
    """
    return {"step": step, "failed_items": failed_items}


for verb in (show_command, result_command, logs_command, replay_command, diff_command):
    command.add_command(verb)


def _ctx(sets: tuple[str, ...]) -> Json:
    values = {}
    for text in sets:
        key, equals, value = text.partition("=")
        if not equals or not key or "." in key:
            raise UsageError(f"--set-ctx {text}: write it as KEY=VALUE, such as limit=5; KEY is a whole key of ctx")
        values[key] = yaml_value(key, value, "--set-ctx")
    return values


def _print_preview(preview: Json) -> None:
    for line in _fork_lines(preview):
        click.echo(line)
    for warning in preview["warnings"]:
        print_message(printable(f"noetl: warning: {warning}"))


def _print_forked(forked: Json) -> None:
    for line in _fork_lines(forked):
        print_message(line)


def _fork_lines(forked: Json) -> Iterator[str]:
    yield f"from {forked['source_id']}, up to its event {forked['source_seq']}"
    if forked["done"]:
        yield printable(f"  kept: {', '.join(forked['done'])}")
    for step in forked["again"]:
        text = f"{'again' if step['failed'] else 'continues'}: {step['run']}"
        if step["items"] is not None:
            text += f", {counted(step['items'], 'item')} left"
        elif step["task"]:
            text += f" at task {step['task']}"
        yield printable(f"  {text}")


@command.command("export")
@run_argument
@click.option("-f", "--file", "path", required=True, metavar="FILE", help="File to write; `-` is standard output.")
@client_option
def export_command(run: str, path: str, client: Client) -> None:
    """Write everything that is stored of a run to a JSON file: the run, its playbook, its events, the output of its
    tasks, and the contents of its references. A server exports only texts of registered playbooks."""
    if path == "-":
        for text in codecs.iterdecode(client.runs.export(run), "utf-8"):
            click.echo(printable_json(text), nl=False)
        return
    record = client.runs.get(run)
    try:
        with open(path, "wb", opener=_private) as file:
            file.writelines(client.runs.export(record["execution_id"]))
    except OSError as error:
        raise NoetlError(f"cannot write {path}: {error.strerror}") from error
    print_message(f"{record['execution_id']}: {record['events']:,} events written to {path}")


def _private(path: str, flags: int) -> int:
    """Open a file with mode 0600, also if the file exists."""
    descriptor = os.open(path, flags, 0o600)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.fchmod(descriptor, 0o600)
    return descriptor
