"""Limits failed logins.

Failures are counted for each user and address together: whoever guesses is slowed down there, and nobody else is. All
failures for one user are counted as well, against guesses from many addresses; whoever has signed in from an address
before is not held up by those. Nothing is counted for an address alone: behind a proxy everybody may have the same.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import NamedTuple

from noetl.clock import Clock
from noetl.server.problems import Refused

TRIES, TRIES_PER_USER = 5, 50
"""So many wrong passwords are nothing special; each one more doubles the wait."""
FIRST_SECONDS, LAST_SECONDS, LAST_SECONDS_PER_USER = 2.0, 900.0, 60.0
FORGOTTEN_SECONDS = 3600.0
KEPT = 10_000

Subject = tuple[str, ...]


class Failures(NamedTuple):
    """Number of failures, and the time of the last one."""

    number: int = 0
    last: float = 0.0


class Throttle:
    """Counts failed logins by user and address, in memory only: a restart resets them."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._failures: OrderedDict[Subject, Failures] = OrderedDict()
        """In order of the last failure, the most recent at the end."""
        self._signed_in: OrderedDict[Subject, None] = OrderedDict()

    def check(self, user: str, address: str) -> None:
        """Refused, with the time to wait, where there were too many failures of late."""
        until = self._until((user, address), TRIES, LAST_SECONDS)
        if (user, address) not in self._signed_in:
            until = max(until, self._until((user,), TRIES_PER_USER, LAST_SECONDS_PER_USER))
        left = until - self.clock.now()
        if left > 0:
            raise Refused(
                429, "too many wrong passwords; try again later", headers={"Retry-After": str(math.ceil(left))}
            )

    def failed(self, user: str, address: str) -> None:
        now = self.clock.now()
        for subject in ((user, address), (user,)):
            before = self._failures.pop(subject, Failures())
            number = 1 if now - before.last > FORGOTTEN_SECONDS else before.number + 1
            self._failures[subject] = Failures(number, now)
        while len(self._failures) > KEPT:
            self._failures.popitem(last=False)

    def succeeded(self, user: str, address: str) -> None:
        """Reset the failures after a successful login, including the one counted in advance."""
        self._failures.pop((user, address), None)
        all_of_user = self._failures.get((user,))
        if all_of_user is not None:
            self._failures[(user,)] = all_of_user._replace(number=all_of_user.number - 1)
        self._signed_in[user, address] = None
        self._signed_in.move_to_end((user, address))
        while len(self._signed_in) > KEPT:
            self._signed_in.popitem(last=False)

    def _until(self, subject: Subject, tries: int, longest: float) -> float:
        number, last = self._failures.get(subject, Failures())
        if number < tries:
            return 0.0
        return last + min(longest, FIRST_SECONDS * 2.0 ** min(number - tries, 20))
