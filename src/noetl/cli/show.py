"""noetl runs show, noetl runs result, noetl runs logs: the state, the results and the task output of a run."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import click

from noetl.cli.options import client_and_output, since_option
from noetl.cli.output import RESULT, brief, emit, format_duration, print_message, print_run, target_options_text
from noetl.client.client import MAX_OUTAGE_SECONDS, PAGE, Client, ExplainArgs, Items, Json, RunFilter
from noetl.dsl.problem import did_you_mean
from noetl.errors import Conflict, Interrupted, NotFound, ServerUnreachable
from noetl.model.event_filter import EventFilter
from noetl.model.identity import step_of
from noetl.model.status import ENDED
from noetl.printable import printable
from noetl.reference import Reference
from noetl.results.read import read_value

RUN_FIELDS = (
    *(*RESULT, "started", "ended", "actor", "cancelled_by", "cancel_reason", "running", "waiting", "missing_pools"),
    *("version", "payload", "forked_from", "children", "forks"),
)
REFERENCE = ("store", "key", "size", "checksum", "schema_hint", "preview")
FOLLOW_SECONDS = 0.5
MAX_LISTED_CHILDREN = 20
STARTED = frozenset(["task.started", "sink.started"])
DONE = frozenset(["task.done", "sink.processed"])
FORKED = "execution.forked"
REQUESTED = frozenset(["playbook.execution.requested"])
STATUSES = {"success": "succeeded", "error": "failed", "skipped": "skipped"}


@click.command("show")
@click.argument("run", metavar="RUN")
@click.option("--tasks", "with_tasks", is_flag=True, help="List every task with its attempts and its duration.")
@client_and_output
def show_command(run: str, with_tasks: bool, client: Client, output: str | None) -> None:
    """Show the status, steps, result, error, running tasks, waits and newest children of a run."""
    record = client.runs.get(run)
    tasks = list(_tasks(client, record)) if with_tasks else []
    if output is not None:
        fields = {key: record[key] for key in RUN_FIELDS}
        emit(fields | {"tasks": tasks} if with_tasks else fields, output)
        return
    children = client.runs.list(RunFilter(parent=record["execution_id"]), MAX_LISTED_CHILDREN)
    print_run(record, children, target_options_text(), client.url)
    if tasks:
        click.echo()
        emit([_task_row(task) for task in tasks], "table")


def _tasks(client: Client, record: Json) -> Iterator[Json]:
    """The tasks in the log of a run, in the order of their first attempts. One that a fork runs again counts from
    there."""
    tasks: dict[str, Json] = {}
    before_fork: set[str] = set()
    for page in client.runs.events(record["execution_id"], filter=EventFilter(STARTED | DONE | {FORKED})):
        for event in page:
            kind, id, payload = event["event_type"], event["task_run_id"], event["payload"]
            if kind == FORKED:
                before_fork = set(tasks)
                continue
            if id in before_fork:
                before_fork.discard(id)
                del tasks[id]
            task = tasks.setdefault(
                id,
                {
                    "task": id,
                    "run": event["step_run_id"],
                    "step": step_of(event["step_run_id"]),
                    "item": event["iteration"],
                    "status": "running",
                    "attempts": 0,
                    "started": event["timestamp"],
                    "duration_ms": 0.0,
                    "error": None,
                },
            )
            task["attempts"] = max(task["attempts"], event["attempt"])
            task["status"], task["since"] = "running", event["timestamp"]
            if kind in DONE:
                retried = payload["do"] == "retry"
                task["status"] = "retrying" if retried else STATUSES[event["status"]]
                task["duration_ms"] = round(task["duration_ms"] + payload.get("duration_ms", 0.0), 3)
                task["error"] = (payload.get("outcome") or {}).get("error")
    now, parked = time.time(), {(wait["run"], wait["item"]) for wait in record["waiting"]}
    for task in tasks.values():
        run, since = task.pop("run"), datetime.fromisoformat(task.pop("since")).timestamp()
        if task["status"] == "running" and record["status"] in ENDED:
            task["status"] = "cancelled"
        elif task["status"] == "running":
            task["status"] = "waiting" if (run, task["item"]) in parked else "running"
            task["duration_ms"] = round(task["duration_ms"] + max(0.0, now - since) * 1000, 3)
        yield task


def _task_row(task: Json) -> Json:
    error = task["error"]
    return {
        "task": task["task"],
        "status": task["status"],
        "attempts": str(task["attempts"]),
        "took": format_duration(task["duration_ms"] / 1000),
        "error": brief(f"{error['kind']}: {error['message']}") if error else "",
    }


@click.command("result")
@click.argument("run", metavar="RUN")
@click.argument("step", required=False, metavar="[STEP]")
@client_and_output
def result_command(run: str, step: str | None, client: Client, output: str | None) -> None:
    """Print the result of a run, or of the last run of a step, as JSON. Stored values are loaded."""
    record = client.runs.get(run)
    value, status, subject = record["result"], record["status"], record["execution_id"]
    if step is not None:
        if step not in record["steps"]:
            hint = did_you_mean(step, record["steps"]) or f"steps with a result: {', '.join(record['steps']) or 'none'}"
            raise NotFound(f"step {step!r} of {record['execution_id']} has not run: {hint}")
        value, status = record["steps"][step]["result"], record["steps"][step]["status"]
        subject = f"step {step!r} of {record['execution_id']}"
    if status != "succeeded":
        raise Conflict(f"{subject} has no result: it is {status}; see `noetl runs show {record['execution_id']}`")
    emit(_loaded(client, value), output or "json")


def _loaded(client: Client, value: Any) -> Any:
    """The value with the contents of all references in it, except secrets."""
    if isinstance(value, dict) and set(REFERENCE) <= value.keys():
        value = Reference(*(value[name] for name in REFERENCE))
    if isinstance(value, Reference):
        if value.is_secret:
            return value.as_data()
        content = read_value(lambda key: client.runs.contents([key]).get(key), value)
        if isinstance(content, bytes):
            return {"base64": base64.b64encode(content).decode()}
        return _loaded(client, content)
    if isinstance(value, dict):
        return {key: _loaded(client, item) for key, item in value.items()}
    return [_loaded(client, item) for item in value] if isinstance(value, list) else value


@click.command("logs")
@click.argument("run", metavar="RUN")
@click.option("--follow", "-f", is_flag=True, help="Print new lines until the run has ended.")
@click.option("--step", metavar="STEP", help="Print only the output of this step, and of the children it started.")
@since_option("lines")
@client_and_output
def logs_command(run: str, follow: bool, step: str | None, since: float, client: Client, output: str | None) -> None:
    """Print the standard output and standard error of the tasks of a run, with time and stream.

    The output of child runs is indented. `-f -o jsonl` prints one line of JSON for each line.
    """
    logs = RunLogs(client, client.runs.item(run)["execution_id"], step, since)
    if step is not None:
        client.runs.explain(logs.execution, ExplainArgs(step, limit=1))  # NotFound if the playbook has no such step
    collected: Items = []
    last_heard = time.monotonic()
    try:
        while True:
            try:
                ended = not follow or client.runs.item(logs.execution)["status"] in ENDED
                lines = logs.new_lines()
            except ServerUnreachable:
                if not follow or time.monotonic() - last_heard > MAX_OUTAGE_SECONDS:
                    raise
                time.sleep(FOLLOW_SECONDS)
                continue
            last_heard = time.monotonic()
            if output in (None, "jsonl"):
                for line in lines:
                    _print_line(line, output)
            else:
                collected += lines
            if ended:
                break
            time.sleep(FOLLOW_SECONDS)
    except KeyboardInterrupt:
        raise Interrupted(f"stopped following; {logs.execution} goes on") from None
    if not logs.has_output and output is None:
        others = f"; steps with output: {', '.join(sorted(logs.steps))}" if logs.steps else ""
        print_message(printable(f"no output{f' of step {step!r}{others}' if step else ''}"))
    if output not in (None, "jsonl"):
        emit([{key: line[key] for key in line if key != "depth"} for line in collected], output)


def _print_line(line: Json, output: str | None) -> None:
    if output is not None:
        emit({key: line[key] for key in line if key != "depth"}, output)
        return
    at = datetime.fromisoformat(line["timestamp"]).astimezone()
    moment = click.style(f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}", fg="bright_black")
    stream = click.style(f"{line['stream']:<6}", fg="red" if line["stream"] == "stderr" else None)
    task = click.style(printable(line["task"]), fg="cyan")
    click.echo(f"{'  ' * line['depth']}{moment} {stream} {task} | {printable(line['line'])}")


class FamilyMember(NamedTuple):
    execution: str
    depth: int = 0
    step: str | None = None
    """The step of the run that started this execution, directly or through another child. None for the run itself, or
    if the output is not limited to a step."""


class RunLogs:
    """The output of a run and of its descendants, or of one of its steps with the descendants that it started."""

    def __init__(self, client: Client, execution: str, step: str | None, since: float) -> None:
        self.client, self.execution, self.step, self.since = client, execution, step, since
        self.unread: Items = []
        self.last: dict[str, int] = {}  # the number of the last line that was read, by execution
        self.steps: set[str] = set()  # of the run, with output of their own or of their children
        self.starters: dict[str, str] = {}  # the steps that started the children of the run
        self.has_output = False

    def new_lines(self) -> Items:
        """Lines that have been written since the last call, in the order of their time. If it fails, the next call
        returns them."""
        for member in self._family():
            execution = member.execution
            for line in self.client.runs.output(execution, self.last.get(execution, 0)):
                self.last[execution] = line["number"]
                step = member.step or step_of(line["task"].partition("/")[0].partition("[")[0])
                self.steps.add(step)
                if self.step in (None, step) and datetime.fromisoformat(line["timestamp"]).timestamp() >= self.since:
                    self.unread.append({"execution_id": execution, **line, "depth": member.depth})
                    self.has_output = True
        lines, self.unread = self.unread, []
        return sorted(lines, key=lambda line: (line["timestamp"], line["number"]))

    def _family(self) -> Iterator[FamilyMember]:
        remaining = [FamilyMember(self.execution)]
        while remaining:
            member = remaining.pop()
            yield member
            for child in self.client.runs.list(RunFilter(parent=member.execution), PAGE):
                execution = child["execution_id"]
                starter = member.step or (self._starter(execution) if self.step is not None else None)
                remaining.append(FamilyMember(execution, member.depth + 1, starter))

    def _starter(self, child: str) -> str:
        """The step that started a child of the run; it is in the first event of the child."""
        if child not in self.starters:
            first = next(self.client.runs.events(child, filter=EventFilter(types=REQUESTED)))[0]
            self.starters[child] = first["payload"]["parent"][1]
        return self.starters[child]
