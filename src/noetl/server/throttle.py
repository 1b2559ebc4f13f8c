"""Limits failed logins.

Failures are counted per user and address, so that guesses delay nobody else. All failures of a user are counted as
well, against guesses from many addresses; they do not delay addresses from which that user has signed in before. There
is no count per address alone, because all users behind a proxy may share one.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import NamedTuple

from noetl.clock import Clock
from noetl.server.problems import Refused

FREE_TRIES, FREE_TRIES_PER_USER = 5, 50
"""Wrong passwords without a delay; each further one doubles the delay."""
FIRST_DELAY, MAX_DELAY, MAX_DELAY_PER_USER = 2.0, 900.0, 60.0
RESET_SECONDS = 3600.0
MAX_SUBJECTS = 10_000

Subject = tuple[str, ...]


class Failures(NamedTuple):
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
        """Refused, with the time to wait, after too many recent failures."""
        until = self._until((user, address), FREE_TRIES, MAX_DELAY)
        if (user, address) not in self._signed_in:
            until = max(until, self._until((user,), FREE_TRIES_PER_USER, MAX_DELAY_PER_USER))
        seconds = until - self.clock.now()
        if seconds > 0:
            retry = {"Retry-After": str(math.ceil(seconds))}
            raise Refused(429, "too many wrong passwords; try again later", headers=retry)

    def failed(self, user: str, address: str) -> None:
        now = self.clock.now()
        for subject in ((user, address), (user,)):
            before = self._failures.pop(subject, Failures())
            number = 1 if now - before.last > RESET_SECONDS else before.number + 1
            self._failures[subject] = Failures(number, now)
        while len(self._failures) > MAX_SUBJECTS:
            self._failures.popitem(last=False)

    def succeeded(self, user: str, address: str) -> None:
        """Reset the failures after a successful login, including the one counted in advance."""
        self._failures.pop((user, address), None)
        all_of_user = self._failures.get((user,))
        if all_of_user is not None:
            self._failures[(user,)] = all_of_user._replace(number=all_of_user.number - 1)
        self._signed_in[user, address] = None
        self._signed_in.move_to_end((user, address))
        while len(self._signed_in) > MAX_SUBJECTS:
            self._signed_in.popitem(last=False)

    def _until(self, subject: Subject, tries: int, longest: float) -> float:
        number, last = self._failures.get(subject, Failures())
        if number < tries:
            return 0.0
        return last + min(longest, FIRST_DELAY * 2.0 ** min(number - tries, 20))
