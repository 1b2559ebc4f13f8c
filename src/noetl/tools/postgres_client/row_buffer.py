"""The rows of a result on their way to being one, with a limit on their size.

Rows are kept as JSON, which takes a fraction of the memory of objects. A small result becomes objects again; a large
one is stored as it is. Rows with binary content stay objects: JSON can't hold it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.model.outcome import Failure

RESULT_BYTES = 50 << 20
LARGE_BYTES = 1 << 20

_encode = msgspec.json.Encoder().encode


class Gathering:
    """Takes rows in batches."""

    def __init__(self, limit: int = RESULT_BYTES) -> None:
        self.limit = limit
        self.size = self.count = 0
        self._texts: list[bytes] = []
        self._rows: list[dict[str, Any]] = []
        self.binary = False

    def add(self, rows: list[dict[str, Any]]) -> None:
        text = _encode(rows)
        self.count += len(rows)
        self.size += len(text)
        if self.size > self.limit:
            message = (
                f"the result is above {self.limit >> 20} MiB: read less with LIMIT, or move it with kind: transfer"
            )
            raise Failure("too_large", message, limit=self.limit)
        if self.binary:
            self._rows += rows
        else:
            self._texts.append(text[1:-1])

    def rows(self) -> list[dict[str, Any]]:
        """The rows as objects."""
        rows: list[dict[str, Any]] = self._rows or msgspec.json.decode(b"[" + b",".join(self._texts) + b"]")
        return rows

    def result(self, more: dict[str, Any]) -> Any:
        """The whole result: `rows` and what else there is to tell."""
        if self.binary or self.size < LARGE_BYTES:
            return {"rows": self.rows(), **more}
        return msgspec.Raw(b'{"rows":[' + b",".join(self._texts) + b"]," + _encode(more)[1:])
