"""Memory limit for request bodies of unauthenticated callers."""

from __future__ import annotations

from noetl.server.problems import Refused

ANONYMOUS_BYTES = 64 << 20
BODY_RETRY_SECONDS = 5


class BodyMemory:
    def __init__(self, limit: int = ANONYMOUS_BYTES) -> None:
        self.limit, self.held = limit, 0

    def reserve(self, size: int) -> None:
        """Reserve memory; Refused if the sum over all requests exceeds the limit."""
        if self.held + size > self.limit:
            raise Refused(
                503,
                "the server is receiving too many request bodies; try again later",
                headers={"Retry-After": str(BODY_RETRY_SECONDS)},
            )
        self.held += size

    def release(self, size: int) -> None:
        self.held -= size
