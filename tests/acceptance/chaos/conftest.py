"""A Postgres server for the tests that need one."""

from __future__ import annotations

from tests.servers.postgres import postgres_fixture  # noqa: F401
