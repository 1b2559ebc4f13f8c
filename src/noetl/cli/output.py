"""The output of verbs: data as json, jsonl, yaml or a table (`-o`); for people, problems, errors and results of
runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import click
import msgspec

from noetl.client.client import PAGE, Client, RunFilter, no_worker
from noetl.dsl.problem import Problem
from noetl.model.status import ENDED
from noetl.printable import is_printable, printable, printable_json, without_passwords
from noetl.wording import counted, cut

Data = TypeVar("Data")
FORMATS = ("json", "jsonl", "yaml", "table")
COLOURS = {"error": "red", "warning": "yellow"}
MAX_COLUMNS = 160
MAX_LINE = 1_000  # longest line of a table that does not go to a terminal
MAX_RESULT = 4_000  # characters of a result below the steps of a run
MAX_CHILDREN = 5  # how many children with errors are named below the end of a run
MIN_CELL = 20  # cells are cut to the width of the terminal, but not below this
IDS = frozenset(["run", "execution_id"])  # columns that are never cut
RESULT = (
    *("execution_id", "status", "result", "ctx", "steps", "error", "events", "duration_ms"),
    *("continued_errors", "continued", "warnings"),
)


def output_option(*formats: str) -> Callable[..., Any]:
    """The option `-o` of a verb; without it the verb prints text for people."""
    return click.option("-o", "--output", type=click.Choice(formats or FORMATS), help="Print data in this format.")


def emit(data: Data, output: str | None, show: Callable[[Data], None] | None = None) -> None:
    """Print data in the format of `-o`; without it, `show` prints it for people, as a table by default."""
    match output:
        case None if show is not None:
            show(data)
        case "json":
            click.echo(_json_text(data))
        case "jsonl":
            for item in data if isinstance(data, list) else [data]:
                click.echo(printable_json(compact(item)))
        case "yaml":
            import yaml

            plain = msgspec.to_builtins(data)
            text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
            if not is_printable(text):  # then all that is not ASCII is escaped
                text = yaml.safe_dump(plain, sort_keys=False)
            click.echo(text, nl=False)
        case _:
            rows = msgspec.to_builtins(data if isinstance(data, list) else [data])
            if rows:
                click.echo(table(rows))


def _json_text(data: Any) -> str:
    return printable_json(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())


def table(rows: Sequence[dict[str, Any]]) -> str:
    def cell(value: Any) -> str:
        text = "-" if value is None else value if isinstance(value, str) else compact(value)
        return " " * (len(text) - len(text.lstrip(" "))) + printable(" ".join(text.split()))

    heads = list(rows[0])
    lines = [heads, *([cell(row.get(head)) for head in heads] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    limit = terminal_columns() if sys.stdout.isatty() else MAX_LINE
    flexible = [place for place, head in enumerate(heads) if head not in IDS]
    for place in flexible:
        widths[place] = min(widths[place], limit)
    while flexible and sum(widths) + 2 * len(widths) - 2 > limit:
        widest = max(flexible, key=widths.__getitem__)
        if widths[widest] <= MIN_CELL:
            break
        widths[widest] -= 1
    return "\n".join(
        "  ".join(cut(text, width).ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def terminal_columns() -> int:
    from shutil import get_terminal_size

    return get_terminal_size().columns


def pick(items: Iterable[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    return [{key: item[key] for key in keys} for item in items]


def print_message(line: str) -> None:
    click.echo(line, err=True)


def compact(value: Any) -> str:
    """JSON on one line."""
    return msgspec.json.encode(value).decode()


def format_duration(seconds: float) -> str:
    """`12 ms`, `3.4 s`, `2 min 5 s`, `1 h 4 min`."""
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def print_problems(problems: Iterable[Problem], *, err: bool = False) -> None:
    """Print each problem with its place, the line with a caret under the fault, and a hint."""
    for problem in problems:
        colour = COLOURS[problem.severity]
        place = click.style(printable(f"{problem.file}:{problem.line}:{problem.column}"), bold=True)
        title = click.style(f"{problem.severity} {problem.code}", fg=colour, bold=True)
        lines = [f"{place}: {title}: {printable(problem.message, lines=True)}"]
        lines += excerpt(problem.line, problem.column, problem.source, colour) if problem.source else []
        lines += _note(problem.hint, len(str(problem.line)))
        click.echo("\n".join(lines), err=err)


def print_rejected(file: str, problems: Iterable[Problem], consequence: str = "") -> None:
    print_problems(problems, err=True)
    print_message(f"{file}: {summary(problems)}{consequence}")


def excerpt(line: int, column: int, source: str, colour: str) -> list[str]:
    """The offending line and a caret; a long line is cut around the fault."""
    gutter = str(line)
    source = "".join(char if char.isprintable() else " " for char in without_passwords(source))
    start = max(0, column - 1 - MAX_COLUMNS // 2) if len(source) > MAX_COLUMNS else 0
    visible = source[start : start + MAX_COLUMNS]
    caret = " " * (column - 1 - start) + click.style("^", fg=colour, bold=True)
    bar = click.style("|", fg="cyan")
    return [f"{gutter} {bar} {visible}", f"{' ' * len(gutter)} {bar} {caret}"]


def summary(problems: Iterable[Problem]) -> str:
    severities = [problem.severity for problem in problems]
    return ", ".join(counted(severities.count(severity), severity) for severity in ("error", "warning"))


def print_result(client: Client, run: dict[str, Any], output: str | None) -> int:
    """Print the result of a run of the client that has ended; returns the exit code."""
    succeeded = run["status"] == "succeeded"
    if output is not None:
        emit({key: run[key] for key in RESULT}, output)
        return 0 if succeeded else 1
    if run["error"] is not None:
        print_message(error_text(run["error"], run["error_line"]))
    verdict = click.style(run["status"], fg="green" if succeeded else "red", bold=True)
    reason = f": {printable(run['cancel_reason'])}" if run["status"] == "cancelled" and run["cancel_reason"] else ""
    took = format_duration(run["duration_ms"] / 1000)
    print_message(f"{printable(run['name'])} {verdict} in {took}{reason}")
    children = client.runs.list(RunFilter(parent=run["execution_id"]), PAGE) if run["children"] else []
    for line in [*continued_lines(run), *_children_lines(children)]:
        print_message(line)
    if succeeded:
        emit(run["result"], "json")
    return 0 if succeeded else 1


def actor_text(actor: dict[str, str]) -> str:
    from noetl.model.actor import actor_words  # `noetl validate` starts without it

    return printable(actor_words(actor["kind"], actor["name"]))


def target_options_text() -> str:
    """`--db` and `--server` as they were given to this verb, for commands in messages."""
    import shlex

    context = click.get_current_context(silent=True)
    parameters = context.params if context is not None else {}
    options = [part for name in ("db", "server") if parameters.get(name) for part in (f"--{name}", parameters[name])]
    return f" {shlex.join(options)}" if options else ""


def print_run(run: dict[str, Any], children: Sequence[dict[str, Any]], target: str, url: str | None) -> None:
    """Print the status, steps, result and error of a run, what it is running and what it waits for, and its children.
    `target` are the options that commands in messages need, `url` the address of the server, if there is one."""
    status = f"{run['status']} (no process)" if run["orphaned"] else run["status"]
    click.echo(f"{printable(run['name'])}  {status}  {run['execution_id']}")
    took = format_duration(run["duration_ms"] / 1000)
    by = f" by {actor_text(run['actor'])}" if run["actor"] else ""
    click.echo(f"started {run['started']}{by}, {took}, {run['events']:,} events")
    if run["cancelled_by"] or run["cancel_reason"]:
        by = f" by {actor_text(run['cancelled_by'])}" if run["cancelled_by"] else ""
        reason = f": {brief(run['cancel_reason'])}" if run["cancel_reason"] else ""
        click.echo(f"cancelled{by}{reason}")
    for warning in run["warnings"]:
        click.echo(f"warning: {printable(warning)}")
    for pool in run["missing_pools"]:
        click.echo(printable(no_worker(pool, url)))
    if run["steps"]:
        click.echo()
        emit([_step_row(name, step) for name, step in run["steps"].items()], "table")
    for line in activity_lines(run, target):
        click.echo(line)
    for line in continued_lines(run):
        click.echo(line)
    if children:
        click.echo()
        emit([_child_row(child) for child in children], "table")
    if run["error"] is not None:
        click.echo(f"\n{error_text(run['error'], run['error_line'])}")
    elif run["status"] in ENDED:
        text = _json_text(run["result"])
        click.echo(f"\n{text}" if len(text) <= MAX_RESULT else f"\n{text[:MAX_RESULT]}…")
        if len(text) > MAX_RESULT:
            click.echo(f"print all of it with `noetl runs result {run['execution_id']}{target}`")


def _child_row(child: dict[str, Any]) -> dict[str, Any]:
    took = "" if child["duration_ms"] is None else format_duration(child["duration_ms"] / 1000)
    return {"run": child["execution_id"], "child": child["name"], "status": status_text(child), "took": took}


def status_text(run: dict[str, Any]) -> str:
    """The status of a listed run, with a note if no process runs it or if errors were continued past."""
    errors = run["continued_errors"]
    notes = [*(["no process"] if run["orphaned"] else []), *([counted(errors, "error")] if errors else [])]
    return f"{run['status']} ({', '.join(notes)})" if notes else str(run["status"])


def _step_row(name: str, step: dict[str, Any]) -> dict[str, Any]:
    items, status = step["items"], step["status"]
    if items is not None:
        status += f", {items['ok'] + items['failed']:,} of {counted(items['total'], 'item')}"
        status += f", {items['failed']:,} failed" if items["failed"] else ""
    return {"step": name, "status": status, "runs": step["runs"], "result": step["result"]}


def activity_lines(run: dict[str, Any], target: str = "") -> Iterator[str]:
    """The tasks that run now, and what the run waits for: until when, and the command that answers it."""
    for task in run["running"]:
        place = task["run"] if task["item"] is None else f"{task['run']}[{task['item']}]"
        attempt = f", attempt {task['attempt']}" if task["attempt"] > 1 else ""
        took = f", {format_duration(task['duration_ms'] / 1000)}"
        state = "was running when its process ended" if run["orphaned"] else "runs"
        yield printable(f"{place}/{task['task']} {state}{attempt}{'' if run['orphaned'] else took}")
    for wait in run["waiting"]:
        until = f" until {local_time(wait['until'])}" if wait["until"] else ""
        yield printable(f"{wait['message']}{until}")
        for command in wait["commands"]:
            yield printable(f"  answer with `{command}{target}`")


def local_time(at: str | float) -> str:
    """`2026-03-01 12:00:00` of a time, in the zone of this machine."""
    moment = datetime.fromisoformat(at) if isinstance(at, str) else datetime.fromtimestamp(at, UTC)
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"


def brief(text: str, limit: int = 200) -> str:
    """The beginning of a text, on one line."""
    return cut(printable(" ".join(text.split())), limit)


def continued_lines(run: dict[str, Any]) -> Iterator[str]:
    """The errors that policies continued past: their number, and the first ones."""
    if run["continued_errors"]:
        yield f"continued past {counted(run['continued_errors'], 'error')}:"
        yield from (f"  {_located_error(error, brief(str(error['message'])))}" for error in run["continued"])
        if run["continued_errors"] > len(run["continued"]):
            yield f"  and {run['continued_errors'] - len(run['continued']):,} more"


def _children_lines(children: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The children that continued past errors: the newest of them, and how many more there are."""
    if continued := [child for child in children if child["continued_errors"]]:
        yield f"{counted(len(continued), 'child run')} continued past errors:"
        for child in continued[:MAX_CHILDREN]:
            yield printable(f"  {child['name']} {child['execution_id']}: {counted(child['continued_errors'], 'error')}")
        if len(continued) > MAX_CHILDREN:
            yield f"  and {len(continued) - MAX_CHILDREN:,} more"


def _located_error(error: dict[str, Any], message: str) -> str:
    line, column = error["line"], error["column"]
    place = printable(f"{error['file']}:{line}:{column}" if line else error["file"])
    subject = [printable(f"{word} {error[word]}") for word in ("step", "task", "attempt") if error[word]]
    if error["item"] is not None:
        subject.insert(1, f"item {error['item']}")
    parts = [click.style(place, bold=True), *([", ".join(subject)] if subject else [])]
    kind = click.style(printable(str(error["kind"])), fg="red", bold=True)
    return f"{': '.join(parts)}: {kind}: {message}"


def error_text(error: dict[str, Any], line_text: str = "") -> str:
    """`playbook.yaml:12:9: step fetch, task call, attempt 3: http_status: ...`, the line, if it is known, the body of
    the HTTP response, what to do, and the traceback of Python."""
    line, details = error["line"], error["details"]
    text = _located_error(error, printable(str(error["message"]), lines=True))
    line_text = line_text or details.get("source", {}).get("text", "")
    source = excerpt(line, error["column"], line_text, "red") if line and line_text else []
    traceback = [f"  {printable(str(part))}" for part in details.get("traceback", ())]
    indent, body = len(str(line)) if source else 1, details.get("body")
    response = None if body is None else f"the response: {brief(body if isinstance(body, str) else compact(body))}"
    return "\n".join([text, *source, *_note(response, indent), *_note(details.get("hint"), indent), *traceback])


def _note(text: str | None, indent: int) -> list[str]:
    return [f"{' ' * indent} {click.style('=', fg='cyan')} {printable(text, lines=True)}"] if text else []
