"""The page of outcomes: the outcome of a call, and every kind of error with its source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from noetl.model.outcome import Error, Outcome
from noetl.tools.base import RETRYABLE_STATUSES
from tools.docs.fields import fields
from tools.docs.markdown import code, page, sentence, table


class ErrorKind(NamedTuple):
    """A kind of error: its source and its meaning."""

    by: str
    meaning: str


ERRORS: dict[str, ErrorKind] = {
    "http_status": ErrorKind("`http`", "The response was a 4xx or 5xx, or an invalid redirect"),
    "connect": ErrorKind(
        "kinds that connect to a server, the keychain", "The connection failed or broke, or TLS failed"
    ),
    "timeout": ErrorKind(
        "`http`, `wait`, SQL kinds, the worker, the engine", "A call, a wait, a step or the execution took too long"
    ),
    "python": ErrorKind("`python`", "The code raised, its result cannot be stored, or its process died"),
    "too_large": ErrorKind("every kind, the engine", "A body, a result, an input or `ctx` exceeds its limit"),
    "not_found": ErrorKind(
        "every kind", "A file, an object or a playbook does not exist, or the driver of the kind is not installed"
    ),
    "auth": ErrorKind(
        "kinds with `auth`, the keychain", "A credential is missing, not allowed here, or was rejected by the server"
    ),
    "sql": ErrorKind(
        "SQL kinds, `transfer`", "The database rejected the statement; the message is that of the database"
    ),
    "cancelled": ErrorKind("SQL kinds", "An administrator of the database cancelled the statement"),
    "exit_code": ErrorKind("`shell`, `script`, `container`", "A program exited with a code other than 0"),
    "child_failed": ErrorKind("`playbook`", "The child execution failed or was cancelled"),
    "input": ErrorKind("every kind", "An input is invalid, or the result cannot be stored"),
    "template": ErrorKind("the pipeline, the engine", "A template could not be evaluated; the message quotes it"),
    "loop_input": ErrorKind("`iterator`, the engine", "`in` of a loop is not a list"),
    "items_failed": ErrorKind("the engine", "Items of a loop with `on_error: collect` failed, after all have run"),
    "policy": ErrorKind("the pipeline", "A rule decided `fail`, or ran out of attempts, on an ok outcome"),
    "ctx_conflict": ErrorKind(
        "the pipeline, the engine",
        "Two items of a parallel loop set one key of `ctx`, or the value does not fit the reducer",
    ),
    "lost": ErrorKind(
        "the pipeline", "The worker was lost after the call had begun, and the task has `on_lost: error`"
    ),
    "poison": ErrorKind("the engine", "Five workers were lost on the step run without progress"),
    "limit": ErrorKind("the pipeline, the engine", "Too many tokens, step runs or visits of a task"),
    "internal": ErrorKind("the worker", "A tool raised an unexpected exception: a defect"),
}
"""Every kind of error."""


RETRYABLE = [
    (
        "`http`",
        "No connection, a connection that broke, a timeout, and the status "
        + ", ".join(map(str, sorted(RETRYABLE_STATUSES)))
        + ". Requests that are not idempotent carry an `Idempotency-Key`.",
    ),
    (
        "`postgres`",
        "No connection; a connection that broke before the statement can have been committed; serialization "
        "failures (40001), deadlocks (40P01), locks that are not available (55P03), exhausted resources (53).",
    ),
    ("`duckdb`", "No connection; a conflict with another transaction."),
    ("`snowflake`", "No connection; a connection that broke; a table that another statement has locked."),
    ("`transfer`", "The errors of its two ends."),
    ("`nats`", "No connection; a connection that broke; no response in time."),
    ("`s3`, `gcs`, `object`", "The store is not reachable or overloaded."),
    (
        "`python`, `shell`, `script`, `quantum`",
        "The child process could not be started, or was killed from outside (SIGKILL).",
    ),
    ("`container`", "The engine is not reachable, or it failed."),
    ("every kind", "The time limit of the call has passed."),
]

EXTRA = """Some kinds add their own field to the outcome, named on their page: `outcome.http` has `status` and
more, `outcome.py` has `exception_type` and `traceback`, `outcome.actor` of `wait` is who sent the signal. The data of a
tool is only in `result`: a body such as `{"status": "error"}` does not change the status of the outcome."""

META = """Templates can also read `outcome.meta` with `attempt`, `duration_ms`, `ts`, the time at which the call started
(RFC 3339, UTC), and `trace_id`, the trace of the run: its id without dashes."""

WHERE = """The error of a step that failed, as `steps.NAME.error`, `event.data.error` or `error` of `noetl run -o json`
show it, also has `step`, `task` and `attempt`; the command adds `file`, `line` and `column`. After the last attempt the
error keeps the kind of the last outcome, and the message has the number of attempts.

The place is the failing line of `code`, `command` or `query`, where that is known, else the task. Then `details.line`
is the line in the program text, and `details.source` has its `line`, `column` and `text` in the playbook.
`details.traceback` is the traceback of Python as a list of lines: secrets are redacted, a line has at most 400
characters, and of more than 60 lines the middle is left out."""


def pages() -> Iterator[tuple[str, str]]:
    yield (
        "reference/outcomes.md",
        page(
            "Outcomes and errors",
            "Every call of a tool has exactly one outcome. The rules of the task decide what "
            "follows ([policies](../explanation/policies.md)).",
            "## Outcome",
            _table(Outcome),
            EXTRA,
            META,
            "## Error",
            _table(Error),
            WHERE,
            "## Kinds of errors",
            "Rules can distinguish errors by `outcome.error.kind`.",
            table(["Kind", "Source", "Meaning"], [(code(k), v.by, sentence(v.meaning)) for k, v in ERRORS.items()]),
            "A plug-in may define its own kinds with a prefix: `acme.quota`.",
            "## Retryable errors",
            "`spec.retry` repeats a call while its error is retryable, and rules can read `outcome.error.retryable`.",
            table(["Kind", "Retryable errors"], RETRYABLE),
            "All other errors are not retryable: the same call would fail again.",
        ),
    )


NOTES = {
    "status": "The only thing that decides whether the call succeeded",
    "result": "The data that the tool returned",
    "error": "The error; null if the call succeeded",
    "extra": "The field of the kind, such as `outcome.http`",
    "kind": "One of the kinds below",
    "message": "For people",
    "retryable": "Whether the same call may succeed later; rules decide whether to retry",
    "details": "Further data, such as `status` and `body` of an HTTP error, or `retry_after` in seconds",
}


def _table(kind: type[Outcome] | type[Error]) -> str:
    rows = [(code(field.name), field.type, sentence(NOTES[field.name])) for field in fields(kind)]
    return table(["Field", "Type", "Meaning"], rows)
