"""One call, from its inputs to its outcome."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from noetl.model.outcome import Failure, Outcome
from noetl.sql import Sql, Value
from noetl.tools.base import Context
from noetl.tools.postgres import Inputs
from noetl.tools.postgres_client.connections import conninfo_of, pool_of
from noetl.tools.postgres_client.errors import NO_ERROR
from noetl.tools.postgres_client.jobs import CopyJob, StatementsJob
from noetl.tools.postgres_client.session import PostgresSession
from noetl.tools.rows.values import row_values

MESSAGE_CHARACTERS = 4000
QUOTED = r"(?s)[\"'].*[\"']|[\"'].*|Key \(.*\)"
"""Values that the server quotes, from the first quote to the last: a value may have quotes itself."""
CANCEL_SECONDS = 2.0
"""How long the server may take to cancel a statement before the connection is dropped."""


async def call(inputs: Inputs, context: Context) -> Outcome:
    task = asyncio.create_task(_work(inputs, context))
    try:
        return await asyncio.shield(task)
    except Failure as failure:
        return _publishable(failure.outcome, inputs, context)
    except asyncio.CancelledError:
        for _ in range(2):  # first the statement on the server, then the wait for that
            task.cancel()
            await asyncio.wait([task], timeout=CANCEL_SECONDS)
        if task.done() and not task.cancelled():
            task.exception()  # or else the loop reports it as never retrieved
        raise


async def _work(inputs: Inputs, context: Context) -> Outcome:
    if inputs.table is None:
        job: StatementsJob | CopyJob = StatementsJob(context.bound[inputs.sql_field], inputs.params)
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
                result, repeated = await _once(session, context.idempotency_key, lambda: job.run(session))
                return Outcome(result=result, extra={"pg": NO_ERROR["pg"] | {"repeated": repeated}})
            if job.transactional:
                async with session.transaction():
                    return Outcome(result=await job.run(session), extra=NO_ERROR)
            session.safe = job.repeatable
            result = await job.run(session)
            if session.in_transaction:
                message = "the SQL begins a transaction without ending it, so it was rolled back: add COMMIT"
                raise Failure("sql", message)
            return Outcome(result=result, extra=NO_ERROR)


def _publishable(outcome: Outcome, inputs: Inputs, context: Context) -> Outcome:
    """The outcome with a message of limited length, since it may quote a value of any length.

    If the call sends a secret, without quoted values: the server truncates them and changes their case, so a secret
    among them would not be recognised.
    """
    values: list[Any] = [inputs.params, inputs.rows, context.own_args]
    for sql in context.bound.values():
        values += (list(part) if isinstance(part, tuple) else part for part in sql.parts)
    if context.redact(values) is not values:
        outcome = context.redact(outcome)
        if (error := outcome.error) is not None:
            error = replace(error, message=_unquoted(error.message), details=_unquoted(error.details))
        outcome = replace(outcome, error=error, extra=_unquoted(outcome.extra))
    error = outcome.error
    if error is not None and len(error.message) > MESSAGE_CHARACTERS:
        error = replace(error, message=context.redact(error.message)[:MESSAGE_CHARACTERS] + " ...")
    return replace(outcome, error=error, extra=NO_ERROR | outcome.extra)


def _unquoted(value: Any) -> Any:
    if isinstance(value, str):
        return re.sub(QUOTED, "***", value)
    if isinstance(value, dict):
        return {key: _unquoted(item) for key, item in value.items()}
    return [_unquoted(item) for item in value] if isinstance(value, list) else value


# -- exactly once -----------------------------------------------------------------------------------------------------

LEDGER = "noetl_ledger"
MAX_STORED_BYTES = 1 << 20
LOCK = 0x6E6F65746C  # an arbitrary number
UNDEFINED_TABLE, NO_PRIVILEGE = "42P01", "42501"
INSERTION = f"INSERT INTO {LEDGER} (action) VALUES ("
END_OF_INSERTION = f""") ON CONFLICT DO NOTHING RETURNING (
    SELECT format('%I.%I', n.nspname, c.relname) FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = {LEDGER}.tableoid) AS ledger"""
DEFINITION = "(action text PRIMARY KEY, done_at timestamptz NOT NULL DEFAULT now(), result jsonb)"


async def _once(session: PostgresSession, action: str, work: Callable[[], Awaitable[Any]]) -> tuple[Any, bool]:
    """The result of the work, and whether it is that of an earlier call.

    A row of the ledger is committed together with the effect, and found when the call is repeated. It is inserted
    first: a concurrent call of the same action waits for the first one to end, and then either finds the row or
    inserts it.
    """
    insertion = Sql((INSERTION, Value(action), END_OF_INSERTION))
    await session.command("BEGIN")
    try:
        new = await session.values(insertion)
    except Failure as failure:
        if _state(failure) != UNDEFINED_TABLE:
            raise
        await session.command("ROLLBACK")
        await _create_ledger(session)
        await session.command("BEGIN")
        new = await session.values(insertion)
    if not new:
        rows = await session.values(Sql((f"SELECT result FROM {LEDGER} WHERE action = ", Value(action))))
        await session.command("ROLLBACK")
        return rows[0]["result"] if rows else None, True
    result = await work()
    stored = msgspec.json.encode(result)
    if len(stored) > MAX_STORED_BYTES:
        stored = msgspec.json.encode({**msgspec.json.decode(stored), "rows": [], "rows_omitted": True})
    # The table has its full name: the statements may have changed the search path.
    update = f"UPDATE {new[0]['ledger']} SET result = "
    await session.execute(Sql((update, Value(stored.decode()), "::jsonb WHERE action = ", Value(action))), None)
    await session.command("COMMIT")  # if the response is lost, the next call finds the row
    return result, False


async def _create_ledger(session: PostgresSession) -> None:
    """Under a lock: two concurrent CREATEs collide even with IF NOT EXISTS."""
    try:
        async with session.transaction():
            await session.command(f"SELECT pg_advisory_xact_lock({LOCK})")
            await session.command(f"CREATE TABLE IF NOT EXISTS {LEDGER} {DEFINITION}")
    except Failure as failure:
        if _state(failure) != NO_PRIVILEGE:
            raise
        advice = f"`exactly_once` needs a table that this user may not create: CREATE TABLE {LEDGER} {DEFINITION}"
        raise Failure("sql", advice, extra=failure.outcome.extra) from None


def _state(failure: Failure) -> str | None:
    state: str | None = failure.outcome.extra.get("pg", {}).get("sqlstate")
    return state
