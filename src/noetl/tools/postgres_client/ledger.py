"""Exactly once: a row that is committed together with the effect, and found by whoever makes the call again.

The row is inserted first. A second call of the same action that runs at the same time waits for the first to end, and
then either finds the row or takes its place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from noetl.model.outcome import Failure
from noetl.sql import Sql, Value
from noetl.tools.postgres_client.session import Session

LEDGER = "noetl_ledger"
STORED_BYTES = 1 << 20
LOCK = 0x6E6F65746C  # any number that nobody else locks
UNDEFINED_TABLE, NO_PRIVILEGE = "42P01", "42501"
INSERTION = f"INSERT INTO {LEDGER} (action) VALUES ("
END_OF_INSERTION = f""") ON CONFLICT DO NOTHING RETURNING (
    SELECT format('%I.%I', n.nspname, c.relname) FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = {LEDGER}.tableoid) AS ledger"""
DEFINITION = "(action text PRIMARY KEY, done_at timestamptz NOT NULL DEFAULT now(), result jsonb)"


async def once(session: Session, action: str, work: Callable[[], Awaitable[Any]]) -> tuple[Any, bool]:
    """The result of the work, and whether it is that of an earlier call."""
    new = await _begun(session, action)
    if not new:
        found = await session.values(Sql((f"SELECT result FROM {LEDGER} WHERE action = ", Value(action))))
        await session.command("ROLLBACK")
        return found[0]["result"] if found else None, True
    result = await work()
    await session.execute(_update(new[0]["ledger"], action, result), None)
    await session.command("COMMIT")  # if its answer is lost, the next call finds out
    return result, False


async def _begun(session: Session, action: str) -> list[dict[str, Any]]:
    """A transaction with the action in the ledger: a row with the ledger's name, or none if it was there already."""
    try:
        return await _inserted(session, action)
    except Failure as failure:
        if _state(failure) != UNDEFINED_TABLE:
            raise
    await session.command("ROLLBACK")
    await _create(session)
    return await _inserted(session, action)


async def _inserted(session: Session, action: str) -> list[dict[str, Any]]:
    await session.command("BEGIN")
    return await session.values(Sql((INSERTION, Value(action), END_OF_INSERTION)))


def _update(ledger: str, action: str, result: Any) -> Sql:
    """The result beside the action. The table by its full name: the statements may have set another search path."""
    kept = msgspec.json.encode(result)
    if len(kept) > STORED_BYTES:
        told = msgspec.json.decode(kept)
        kept = msgspec.json.encode({**told, "rows": [], "rows_omitted": True})
    return Sql((f"UPDATE {ledger} SET result = ", Value(kept.decode()), "::jsonb WHERE action = ", Value(action)))


async def _create(session: Session) -> None:
    """Two that create a table at once collide even with IF NOT EXISTS: they take turns."""
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
