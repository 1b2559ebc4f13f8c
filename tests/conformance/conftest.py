"""A database for the tests of the store in Postgres."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from tests.servers.postgres import Schema, postgres_fixture, schema_fixture  # noqa: F401


@pytest.fixture
def database(schema: Schema) -> str:
    """The address of a store in a schema of this test's own."""
    fields = schema.server.fields()
    where = f"{fields['user']}:{quote(fields['password'])}@{fields['host']}:{fields['port']}/{fields['database']}"
    return f"postgresql://{where}?schema={schema.name}"
