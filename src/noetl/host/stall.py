"""Detects stalls of the server itself: it was stopped, suspended, out of CPU, or without its database.

During a stall the server records no heartbeats, so missing heartbeats are not the fault of workers. After a stall every
worker gets the full duration of its lease to send a heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable

from noetl.clock import uptime

STALL_SECONDS = 5.0
"""A longer pause between two observations is a stall."""


class StallDetector:
    """Measures how long the server has run without a stall, from regular calls of `observe`."""

    def __init__(self, now: Callable[[], float] = uptime) -> None:
        self.now = now
        self.last_observed = self.attentive_since = now()  # the time before the start counts as a stall

    def observe(self) -> None:
        """Record that the event loop runs and the store responds."""
        now = self.now()
        if now - self.last_observed > STALL_SECONDS:
            self.attentive_since = now
        self.last_observed = now

    def attentive_seconds(self) -> float:
        """Seconds for which this server has been able to record heartbeats; 0 right after a stall."""
        now = self.now()
        return 0.0 if now - self.last_observed > STALL_SECONDS else now - self.attentive_since
