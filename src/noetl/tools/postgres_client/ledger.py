"""Exactly once: a row that is committed together with the effect, and found when the call is repeated.

The row is inserted first. A concurrent call of the same action waits for the first one to end, and then either finds
the row or inserts it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from noetl.model.outcome import Failure
from noetl.sql import Sql, Value
from noetl.tools.postgres_client.session import PostgresSession

LEDGER = "noetl_ledger"
MAX_STORED_BYTES = 1 << 20
LOCK = 0x6E6F65746C  # an arbitrary number
UNDEFINED_TABLE, NO_PRIVILEGE = "42P01", "42501"
INSERTION = f"INSERT INTO {LEDGER} (action) VALUES ("
END_OF_INSERTION = f""") ON CONFLICT DO NOTHING RETURNING (
    SELECT format('%I.%I', n.nspname, c.relname) FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = {LEDGER}.tableoid) AS ledger"""
DEFINITION = "(action text PRIMARY KEY, done_at timestamptz NOT NULL DEFAULT now(), result jsonb)"


async def once(session: PostgresSession, action: str, work: Callable[[], Awaitable[Any]]) -> tuple[Any, bool]:
    """The result of the work, and whether it is that of an earlier call."""
    new = await _begin(session, action)
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


async def _begin(session: PostgresSession, action: str) -> list[dict[str, Any]]:
    """Begin a transaction with the action in the ledger; return a row with the ledger's name, or none if the action is
    there already."""
    try:
        return await _insert(session, action)
    except Failure as failure:
        if _state(failure) != UNDEFINED_TABLE:
            raise
    await session.command("ROLLBACK")
    await _create(session)
    return await _insert(session, action)


async def _insert(session: PostgresSession, action: str) -> list[dict[str, Any]]:
    await session.command("BEGIN")
    return await session.values(Sql((INSERTION, Value(action), END_OF_INSERTION)))


async def _create(session: PostgresSession) -> None:
    """Create the table under a lock: two concurrent CREATEs collide even with IF NOT EXISTS."""
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
