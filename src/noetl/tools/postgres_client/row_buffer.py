"""The rows of a result, up to a limit.

Rows are stored as JSON, which takes a fraction of the memory of objects. A small result is decoded again; a large one
is used as it is. Rows with binary content stay objects: JSON can't represent it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.model.outcome import Failure

MAX_RESULT_BYTES = 50 << 20
LARGE_BYTES = 1 << 20

_encode = msgspec.json.Encoder().encode


class RowBuffer:
    def __init__(self, limit: int = MAX_RESULT_BYTES) -> None:
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
            message = f"the result is above {self.limit >> 20} MiB: add a LIMIT, or copy the rows with `transfer`"
            raise Failure("too_large", message, limit=self.limit)
        if self.binary:
            self._rows += rows
        else:
            self._texts.append(text[1:-1])

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._rows or msgspec.json.decode(b"[" + b",".join(self._texts) + b"]")
        return rows

    def result(self, more: dict[str, Any]) -> Any:
        """The result with `rows` and other fields."""
        if self.binary or self.size < LARGE_BYTES:
            return {"rows": self.rows(), **more}
        return msgspec.Raw(b'{"rows":[' + b",".join(self._texts) + b"]," + _encode(more)[1:])
