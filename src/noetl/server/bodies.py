"""Memory for request bodies of callers who have not shown who they are."""

from __future__ import annotations

from noetl.server.problems import Refused

ANONYMOUS_BYTES = 64 << 20
RETRY_SECONDS = 5


class BodyMemory:
    """Counts the bytes of bodies that are held at the moment; there is a limit for their sum."""

    def __init__(self, limit: int = ANONYMOUS_BYTES) -> None:
        self.limit, self.held = limit, 0

    def take(self, size: int) -> None:
        """Count more bytes; Refused if they are too many beside those of other requests."""
        if self.held + size > self.limit:
            raise Refused(
                503,
                "too many request bodies are being received at the moment; try again",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        self.held += size

    def give_back(self, size: int) -> None:
        self.held -= size
