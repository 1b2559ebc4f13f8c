"""A database for the tests of the store in Postgres."""

from __future__ import annotations

import pytest
from tests.servers.postgres import Schema, postgres_fixture, schema_fixture  # noqa: F401


@pytest.fixture
def database(schema: Schema) -> str:
    """The address of a store in a schema of this test's own."""
    return schema.store_address
