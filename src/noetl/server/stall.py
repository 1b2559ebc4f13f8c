"""Notices when the server itself was silent: stopped, suspended, out of CPU, or without its database.

Heartbeats that workers sent meanwhile were not recorded, so the silence is not theirs. After it every worker gets the
whole lifetime of its lease to be heard again.
"""

from __future__ import annotations

from collections.abc import Callable

from noetl.clock import uptime

STALL_SECONDS = 5.0
"""A longer pause between two observations is a silence of the server."""


class StallDetector:
    """Told regularly that the server works; knows for how long it has done so without a pause."""

    def __init__(self, now: Callable[[], float] = uptime) -> None:
        self.now = now
        self.last_observed = self.attentive_since = now()  # before its start the server was silent, too

    def observe(self) -> None:
        """The event loop runs and the store answers."""
        now = self.now()
        if now - self.last_observed > STALL_SECONDS:
            self.attentive_since = now
        self.last_observed = now

    def attentive_seconds(self) -> float:
        """For how long workers could make themselves heard at this server; 0 right after a silence."""
        now = self.now()
        return 0.0 if now - self.last_observed > STALL_SECONDS else now - self.attentive_since
