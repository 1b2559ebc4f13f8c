"""One call, from its inputs to its outcome: it runs statements, or loads rows into a table."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from itertools import chain
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from noetl.model.outcome import Failure, Outcome
from noetl.sql.statements import Part, Sql, Value, first_words, is_quoted, statements
from noetl.tools.base import Context
from noetl.tools.postgres import Inputs
from noetl.tools.postgres_client.connections import conninfo_of, pool_of
from noetl.tools.postgres_client.load import LOCK, LoadJob
from noetl.tools.postgres_client.session import NO_ERROR, PostgresSession, sqlstate
from noetl.tools.postgres_client.values import RowBuffer
from noetl.tools.rows.tables import load_of
from noetl.tools.rows.values import ledger_text

MESSAGE_CHARACTERS = 4000
QUOTED = r"(?s)[\"'].*[\"']|[\"'].*|Key \(.*\)"
"""Values that the server quotes, from the first quote to the last: a value may have quotes itself."""
CANCEL_SECONDS = 2.0
"""How long the server may take to cancel a statement before the connection is dropped."""
CONTROL = {("BEGIN",), ("START",), ("COMMIT",), ("END",), ("ROLLBACK",), ("ABORT",)}
READING = {("SELECT",), ("VALUES",), ("TABLE",), ("SHOW",)}
PLACEHOLDER = re.compile(r"%(?:(?P<percent>%)|\((?P<name>[^)]+)\)[sbt]|(?P<position>[sbt]))|(?P<stray>%)")


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
    load = load_of(inputs, context.own_args)
    job: StatementsJob | LoadJob = (
        StatementsJob(context.bound[inputs.sql_field], inputs.params) if load is None else LoadJob(load)
    )
    exactly_once = bool(context.spec.get("exactly_once"))
    if exactly_once and job.controls:
        raise Failure("input", "`exactly_once` runs everything in one transaction: leave BEGIN and COMMIT out")
    target = await conninfo_of(inputs, context)
    async with pool_of(target).connection() as connection:
        session = PostgresSession(connection, context)
        with session.logged_notices():
            if exactly_once:
                result, repeated = await _once(session, context.idempotency_key, lambda: job.run(session))
                return Outcome(result=result, extra={"pg": NO_ERROR["pg"] | {"repeated": repeated}})
            if job.transactional:
                async with session.transaction(idempotent=job.idempotent):
                    return Outcome(result=await job.run(session), extra=NO_ERROR)
            session.safe = job.repeatable
            result = await job.run(session)
            if session.in_transaction:
                message = "the SQL begins a transaction without ending it, so it was rolled back: add COMMIT"
                raise Failure("sql", message)
            return Outcome(result=result, extra=NO_ERROR)


def _publishable(outcome: Outcome, inputs: Inputs, context: Context) -> Outcome:
    """The outcome with a message of limited length, since it may quote a value of any length. If the call sends a
    secret, without quoted values: the server truncates them and changes their case, so a secret among them would not be
    recognised."""
    values: list[Any] = [inputs.params, inputs.rows or [], context.own_args]
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


class StatementsJob:
    idempotent = False

    def __init__(self, sql: Sql, params: list[Any] | dict[str, Any] | None) -> None:
        bound = sql if params is None else _with_params(sql, params)
        if is_quoted(bound):
            raise Failure("input", "a placeholder is inside quotes or a comment: remove the quotes around it")
        self.statements = statements(bound)
        if not self.statements:
            raise Failure("input", "the SQL has no statement")
        words = [first_words(statement) for statement in self.statements]
        others = [number for number, statement_words in enumerate(words) if not _is_control(statement_words)]
        self.controls = len(others) < len(words)
        self.transactional = len(words) > 1 and not self.controls
        """Whether it runs in one transaction; otherwise each statement commits by itself, or the SQL has its own."""
        self.repeatable = len(words) == 1 and words[0][:1] in READING
        self.last = others[-1] if others else len(words) - 1

    async def run(self, session: PostgresSession) -> Any:
        rows, count = RowBuffer(), len(self.statements)
        results = [
            await session.execute(statement, rows if number == self.last else None, number + 1, count)
            for number, statement in enumerate(self.statements)
        ]
        last = results[self.last]
        fields: dict[str, Any] = {"row_count": last.row_count, "columns": last.columns}
        if len(results) > 1:
            fields["statements"] = [result._asdict() for result in results]
        return rows.result(fields)


def _is_control(words: tuple[str, ...]) -> bool:
    return (words[:1] in CONTROL and "TO" not in words) or words[:2] == ("PREPARE", "TRANSACTION")


def _with_params(sql: Sql, params: list[Any] | dict[str, Any]) -> Sql:
    """The SQL with `params` in place of the placeholders `%s` and `%(name)s`; `%%` is a percent sign."""
    by_name = params if isinstance(params, dict) else {}
    in_order = iter(params if isinstance(params, list) else [])

    def replaced(text: str) -> Iterator[Part]:
        end = 0
        for match in PLACEHOLDER.finditer(text):
            yield text[end : match.start()]
            end = match.end()
            if match["percent"]:
                yield "%"
            elif match["stray"]:
                message = "write %% for a percent sign that is not a placeholder, since there are `params`"
                raise Failure("input", message)
            elif name := match["name"]:
                if name not in by_name:
                    raise Failure("input", f"the SQL has the placeholder %({name})s and `params` has no {name!r}")
                yield Value(by_name[name])
            elif (value := next(in_order, UNSET)) is UNSET:
                form = "a map for %(name)s" if isinstance(params, dict) else "too few values"
                raise Failure("input", f"the SQL has placeholders %s and `params` has {form}")
            else:
                yield Value(value)
        yield text[end:]

    pieces = chain.from_iterable(replaced(part) if isinstance(part, str) else [part] for part in sql.parts)
    parts = tuple(piece for piece in pieces if piece != "")
    if next(in_order, UNSET) is not UNSET:
        raise Failure("input", f"`params` has {len(params)} values, more than the SQL has placeholders %s")
    return sql._replace(parts=parts)


LEDGER = "noetl_ledger"
UNDEFINED_TABLE, NO_PRIVILEGE = "42P01", "42501"
INSERTION = f"INSERT INTO {LEDGER} (action) VALUES ("
END_OF_INSERTION = f""") ON CONFLICT DO NOTHING RETURNING (
    SELECT format('%I.%I', n.nspname, c.relname) FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = {LEDGER}.tableoid) AS ledger"""
DEFINITION = "(action text PRIMARY KEY, done_at timestamptz NOT NULL DEFAULT now(), result jsonb)"


async def _once(session: PostgresSession, action: str, work: Callable[[], Awaitable[Any]]) -> tuple[Any, bool]:
    """The result of the work, and whether it is that of an earlier call. A row of the ledger is committed together with
    the effect, and found when the call is repeated. It is inserted first: a concurrent call of the same action waits
    for the first one to end, and then either finds the row or inserts it."""
    insertion = Sql((INSERTION, Value(action), END_OF_INSERTION))
    await session.command("BEGIN")
    try:
        new = await session.values(insertion)
    except Failure as failure:
        if sqlstate(failure) != UNDEFINED_TABLE:
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
    # The table has its full name: the statements may have changed the search path.
    update = f"UPDATE {new[0]['ledger']} SET result = "
    await session.execute(Sql((update, Value(ledger_text(result)), "::jsonb WHERE action = ", Value(action))), None)
    await session.command("COMMIT")  # if the response is lost, the next call finds the row
    return result, False


async def _create_ledger(session: PostgresSession) -> None:
    """Under a lock: two concurrent CREATEs collide even with IF NOT EXISTS."""
    try:
        async with session.transaction():
            await session.command(f"SELECT pg_advisory_xact_lock({LOCK})")
            await session.command(f"CREATE TABLE IF NOT EXISTS {LEDGER} {DEFINITION}")
    except Failure as failure:
        if sqlstate(failure) != NO_PRIVILEGE:
            raise
        advice = f"`exactly_once` needs a table that this user may not create: CREATE TABLE {LEDGER} {DEFINITION}"
        raise Failure("sql", advice, extra=failure.outcome.extra) from None
