"""How often somebody may try a password."""

from __future__ import annotations

import math

from noetl.clock import Clock
from noetl.server.problems import Refused

TRIES = 5
"""So many wrong passwords are nothing special; each one more doubles the wait."""
FIRST_SECONDS, LAST_SECONDS = 2.0, 900.0
FORGOTTEN_SECONDS = 3600.0
KEPT = 10_000


class Throttle:
    """Counts failures by whatever they are about: a user, an address. In memory: who restarts a server is trusted."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._failures: dict[str, tuple[int, float]] = {}

    def check(self, *subjects: str) -> None:
        """Refused, with the time to wait, where there were too many failures of late."""
        now = self.clock.now()
        left = max((self._until(subject) - now for subject in subjects), default=0.0)
        if left > 0:
            raise Refused(
                429, "too many wrong passwords; try again later", headers={"Retry-After": str(math.ceil(left))}
            )

    def failed(self, *subjects: str) -> None:
        now = self.clock.now()
        if len(self._failures) > KEPT:
            self._failures = {key: kept for key, kept in self._failures.items() if now - kept[1] < FORGOTTEN_SECONDS}
        for subject in subjects:
            count, last = self._failures.get(subject, (0, now))
            self._failures[subject] = (1 if now - last > FORGOTTEN_SECONDS else count + 1, now)

    def succeeded(self, *subjects: str) -> None:
        for subject in subjects:
            self._failures.pop(subject, None)

    def _until(self, subject: str) -> float:
        count, last = self._failures.get(subject, (0, 0.0))
        if count < TRIES:
            return 0.0
        return last + min(LAST_SECONDS, FIRST_SECONDS * 2.0 ** min(count - TRIES, 20))
