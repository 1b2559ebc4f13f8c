"""One call, from its inputs to its outcome."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from typing import Any

import msgspec

from noetl.model.outcome import Failure, Outcome
from noetl.tools.base import Context
from noetl.tools.postgres import Inputs
from noetl.tools.postgres_client.faults import NO_FAULT
from noetl.tools.postgres_client.jobs import Copying, Job, Statements
from noetl.tools.postgres_client.ledger import once
from noetl.tools.postgres_client.pool import pool_of
from noetl.tools.postgres_client.session import Session
from noetl.tools.postgres_client.target import target_of
from noetl.tools.rows.shape import shaped

MESSAGE_CHARACTERS = 4000
QUOTED = r"(?s)[\"'].*[\"']|[\"'].*|Key \(.*\)"
"""What the server says of values, from the first quote to the last: a value may have quotes itself."""
GRACE_SECONDS = 2.0
"""For the server to stop a statement that was cancelled, before the connection is dropped."""


async def call(inputs: Inputs, context: Context) -> Outcome:
    try:
        return await _stoppable(_work(inputs, context))
    except Failure as failure:
        outcome = failure.outcome
        return _told(_veiled(context.redact(outcome)) if _sends_secret(inputs, context) else outcome, context)


def _sends_secret(inputs: Inputs, context: Context) -> bool:
    sent: list[Any] = [inputs.params, inputs.rows, context.own_args]
    for sql in context.bound.values():
        for part in sql.parts:
            sent.append(list(part) if isinstance(part, tuple) else part)
    return context.redact(sent) is not sent


def _veiled(outcome: Outcome) -> Outcome:
    """The server quotes values, cuts them short and changes their case: then no part of a secret is recognised. So
    nothing that it quotes is shown where a secret was among the values."""
    error, extra = outcome.error, outcome.extra
    if error is not None:
        error = msgspec.structs.replace(error, message=_unquoted(error.message), details=_unquoted(error.details))
    return msgspec.structs.replace(outcome, error=error, extra=_unquoted(extra))


def _unquoted(value: Any) -> Any:
    if isinstance(value, str):
        return re.sub(QUOTED, "***", value)
    if isinstance(value, dict):
        return {key: _unquoted(item) for key, item in value.items()}
    return [_unquoted(item) for item in value] if isinstance(value, list) else value


def _told(outcome: Outcome, context: Context) -> Outcome:
    """The outcome of a failure, which may quote a value of any length."""
    error = outcome.error
    if error is not None and len(error.message) > MESSAGE_CHARACTERS:
        message = context.redact(error.message)[:MESSAGE_CHARACTERS] + " ..."
        error = msgspec.structs.replace(error, message=message)
    return msgspec.structs.replace(outcome, error=error, extra=NO_FAULT | outcome.extra)


async def _stoppable(work: Coroutine[Any, Any, Outcome]) -> Outcome:
    """The work, which may be cancelled twice: first to end a statement on the server, then to give up on that."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        for _ in range(2):
            task.cancel()
            await asyncio.wait([task], timeout=GRACE_SECONDS)
        if task.done() and not task.cancelled():
            task.exception()  # nobody else will ask
        raise


async def _work(inputs: Inputs, context: Context) -> Outcome:
    job = _job(inputs, context)
    exactly_once = bool(context.spec.get("exactly_once"))
    if exactly_once and job.controls:
        raise Failure("input", "`exactly_once` makes one transaction of it all: leave BEGIN and COMMIT out")
    target = await target_of(inputs, context)
    async with pool_of(target).connection(context.retries) as connection:
        session = Session(connection, context)
        unlisten = session.listen()
        try:
            if exactly_once:
                result, repeated = await once(session, context.idempotency_key, lambda: job.run(session))
                return Outcome(result=result, extra={"pg": NO_FAULT["pg"] | {"repeated": repeated}})
            return Outcome(result=await _done(job, session), extra=NO_FAULT)
        finally:
            unlisten()


def _job(inputs: Inputs, context: Context) -> Job:
    if inputs.table is not None:
        if inputs.params is not None:
            raise Failure("input", "`params` are values of a statement; `table` takes `rows`")
        return Copying(inputs.table, *shaped(inputs.rows, inputs.columns, context.own_args))
    return Statements(context.bound["command" if inputs.command is not None else "query"], inputs.params)


async def _done(job: Job, session: Session) -> Any:
    if job.transactional:
        async with session.transaction():
            return await job.run(session)
    session.safe = job.repeatable
    result = await job.run(session)
    if session.in_transaction:
        raise Failure("sql", "the SQL begins a transaction and does not end it: add COMMIT; it was rolled back")
    return result
