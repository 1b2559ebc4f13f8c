"""The page of outcomes: what a call comes to, and every kind of error with who makes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from noetl.model.outcome import Error, Outcome
from tools.docs.fields import fields
from tools.docs.markdown import code, page, sentence, table


class ErrorKind(NamedTuple):
    """A kind of error in words."""

    by: str
    meaning: str


ERRORS: dict[str, ErrorKind] = {
    "http_status": ErrorKind("`http`", "The answer was a 4xx or 5xx, or a redirect that leads nowhere"),
    "connect": ErrorKind(
        "kinds that speak to a server, the keychain", "No connection, a broken one, or TLS that failed"
    ),
    "timeout": ErrorKind(
        "`http`, `wait`, SQL kinds, the worker, the engine", "A call, a wait, a step or the execution took too long"
    ),
    "python": ErrorKind("`python`", "The code raised, gave a result that can't be stored, or its process died"),
    "too_large": ErrorKind(
        "every kind, the engine", "A body, a result or an input is above the limit of the kind, or `ctx` above its own"
    ),
    "not_found": ErrorKind(
        "every kind", "A file, an object or a playbook is not there, or the driver of the kind is not installed"
    ),
    "auth": ErrorKind(
        "kinds with `auth`, the keychain", "A credential is missing, may not be used here, or was refused by the server"
    ),
    "sql": ErrorKind("SQL kinds, `transfer`", "The database refused the statement; the message is its own"),
    "cancelled": ErrorKind("SQL kinds", "The statement was stopped from outside, by an administrator of the database"),
    "exit_code": ErrorKind("`shell`, `script`, `container`", "A program ended with an exit code other than 0"),
    "child_failed": ErrorKind("`playbook`", "The child execution failed or was cancelled"),
    "input": ErrorKind("every kind", "An input is not what the kind takes, or the result can't be stored"),
    "template": ErrorKind("the pipeline, the engine", "A template could not be evaluated; the message quotes it"),
    "loop_input": ErrorKind("`iterator`, the engine", "`in` of a loop did not give a list"),
    "policy": ErrorKind("the pipeline", "A rule said `fail`, or ran out of attempts, on an ok outcome"),
    "ctx_conflict": ErrorKind(
        "the pipeline, the engine", "Two items of a parallel loop set one key of `ctx`, or a reducer does not fit"
    ),
    "lost": ErrorKind(
        "the pipeline", "The worker was lost after the call had begun, and the task has `on_lost: error`"
    ),
    "poison": ErrorKind("the engine", "Five workers were lost on the run without any progress between them"),
    "limit": ErrorKind("the pipeline, the engine", "Too many tokens, step runs or visits of a task"),
    "internal": ErrorKind("the worker", "A tool raised an exception that it should have made an outcome of: a defect"),
}
"""Every kind that this version makes."""


EXTRA = """Some kinds add a field of their own to the outcome, named on their page: `outcome.http` has `status` and
more, `outcome.py` has `exception_type` and `traceback`. What a tool returns is only ever in `result`: a body that looks
like `{"status": "error"}` does not make an ok outcome an error."""

META = """Templates see one field more: `outcome.meta` with `attempt`, `duration_ms` and `ts`, the time in seconds at
which the call began."""

WHERE = """The error of a step that failed, as `steps.NAME.error`, `event.data.error` or `error` of `noetl run -o json`
show it, also has `step`, `task` and `attempt`; the command adds `file`, `line` and `column` of the task. After the last
attempt the kind of the last outcome stays, and the message tells how many attempts there were."""


def pages() -> Iterator[tuple[str, str]]:
    yield (
        "reference/outcomes.md",
        page(
            "Outcomes and errors",
            "Every call of a tool comes to exactly one outcome. The rules of the task look at it and decide what "
            "follows ([policies](../explanation/policies.md)).",
            "## Outcome",
            _table(Outcome),
            EXTRA,
            META,
            "## Error",
            _table(Error),
            WHERE,
            "## Kinds of errors",
            "Rules can tell errors apart by `outcome.error.kind`.",
            table(["Kind", "Made by", "Meaning"], [(code(k), v.by, sentence(v.meaning)) for k, v in ERRORS.items()]),
            "A tool of a plug-in may have kinds of its own, with its name in front: `acme.quota`.",
        ),
    )


NOTES = {
    "status": "Nothing else decides whether the call went well",
    "result": "What the tool gave. Data, whatever it looks like",
    "error": "Why the call failed; null where it did not",
    "extra": "The kind's own field, laid beside the others: `outcome.http`",
    "kind": "One of the list below",
    "message": "For people",
    "retryable": "Whether the same call may well succeed later; rules decide whether to try",
    "details": "What the kind knows beside, such as `status` and `body` of an HTTP error, or `retry_after` in seconds",
}


def _table(kind: type[Outcome] | type[Error]) -> str:
    rows = [(code(one.name), one.type, sentence(NOTES[one.name])) for one in fields(kind)]
    return table(["Field", "Type", "Meaning"], rows)
