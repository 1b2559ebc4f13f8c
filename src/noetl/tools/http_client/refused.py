"""Why no request was made."""

from __future__ import annotations

from noetl.model.outcome import Failure


class Refused(Failure):
    """The inputs can't be made into a request."""

    def __init__(self, message: str, kind: str = "input") -> None:
        super().__init__(kind, f"http: {message}")
