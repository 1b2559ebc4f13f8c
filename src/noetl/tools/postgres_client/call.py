"""One call, from its inputs to its outcome."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from typing import Any

from msgspec.structs import replace

from noetl.model.outcome import Failure, Outcome
from noetl.tools.base import Context
from noetl.tools.postgres import Inputs
from noetl.tools.postgres_client.conninfo import conninfo_of
from noetl.tools.postgres_client.errors import NO_ERROR
from noetl.tools.postgres_client.jobs import CopyJob, Job, StatementsJob
from noetl.tools.postgres_client.ledger import once
from noetl.tools.postgres_client.pool import pool_of
from noetl.tools.postgres_client.session import PostgresSession
from noetl.tools.rows.values import row_values

MESSAGE_CHARACTERS = 4000
QUOTED = r"(?s)[\"'].*[\"']|[\"'].*|Key \(.*\)"
"""Values that the server quotes, from the first quote to the last: a value may have quotes itself."""
CANCEL_SECONDS = 2.0
"""How long the server may take to cancel a statement before the connection is dropped."""


async def call(inputs: Inputs, context: Context) -> Outcome:
    try:
        return await _cancellable(_work(inputs, context))
    except Failure as failure:
        return _publishable(failure.outcome, inputs, context)


def _publishable(outcome: Outcome, inputs: Inputs, context: Context) -> Outcome:
    """The outcome with a message of limited length, since it may quote a value of any length.

    If the call sends a secret, without quoted values: the server truncates them and changes their case, so a secret
    among them would not be recognised.
    """
    if _sends_secret(inputs, context):
        outcome = context.redact(outcome)
        if (error := outcome.error) is not None:
            error = replace(error, message=_unquoted(error.message), details=_unquoted(error.details))
        outcome = replace(outcome, error=error, extra=_unquoted(outcome.extra))
    error = outcome.error
    if error is not None and len(error.message) > MESSAGE_CHARACTERS:
        error = replace(error, message=context.redact(error.message)[:MESSAGE_CHARACTERS] + " ...")
    return replace(outcome, error=error, extra=NO_ERROR | outcome.extra)


def _sends_secret(inputs: Inputs, context: Context) -> bool:
    values: list[Any] = [inputs.params, inputs.rows, context.own_args]
    for sql in context.bound.values():
        values += (list(part) if isinstance(part, tuple) else part for part in sql.parts)
    return context.redact(values) is not values


def _unquoted(value: Any) -> Any:
    if isinstance(value, str):
        return re.sub(QUOTED, "***", value)
    if isinstance(value, dict):
        return {key: _unquoted(item) for key, item in value.items()}
    return [_unquoted(item) for item in value] if isinstance(value, list) else value


async def _cancellable(work: Coroutine[Any, Any, Outcome]) -> Outcome:
    """Run the work; cancel it twice: first the statement on the server, then the wait for that."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        for _ in range(2):
            task.cancel()
            await asyncio.wait([task], timeout=CANCEL_SECONDS)
        if task.done() and not task.cancelled():
            task.exception()  # or else the loop reports it as never retrieved
        raise


async def _work(inputs: Inputs, context: Context) -> Outcome:
    if inputs.table is None:
        job: Job = StatementsJob(context.bound[inputs.sql_field], inputs.params)
    elif inputs.params is None:
        job = CopyJob(inputs.table, *row_values(inputs.rows, inputs.columns, context.own_args))
    else:
        raise Failure("input", "`params` are for a statement: use `rows` with `table`")
    exactly_once = bool(context.spec.get("exactly_once"))
    if exactly_once and job.controls:
        raise Failure("input", "`exactly_once` runs everything in one transaction: leave BEGIN and COMMIT out")
    target = await conninfo_of(inputs, context)
    async with pool_of(target).connection(context.retries) as connection:
        session = PostgresSession(connection, context)
        with session.logged_notices():
            if exactly_once:
                result, repeated = await once(session, context.idempotency_key, lambda: job.run(session))
                return Outcome(result=result, extra={"pg": NO_ERROR["pg"] | {"repeated": repeated}})
            return Outcome(result=await _run(job, session), extra=NO_ERROR)


async def _run(job: Job, session: PostgresSession) -> Any:
    if job.transactional:
        async with session.transaction():
            return await job.run(session)
    session.safe = job.repeatable
    result = await job.run(session)
    if session.in_transaction:
        raise Failure("sql", "the SQL begins a transaction without ending it, so it was rolled back: add COMMIT")
    return result
