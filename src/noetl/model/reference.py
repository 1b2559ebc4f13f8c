"""A value that is stored elsewhere and known by what it is: its key is the hash of its content."""

from __future__ import annotations

from typing import Any

import msgspec


class Reference(msgspec.Struct, frozen=True, omit_defaults=True):
    """Stands for a large value in events, `ctx` and results. Recognised by its type, never by its shape."""

    store: str
    key: str
    size: int
    checksum: str
    schema_hint: str = ""
    preview: Any = None

    def as_data(self) -> dict[str, Any]:
        """How people see it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {"schema_hint": "", "preview": None} | found
