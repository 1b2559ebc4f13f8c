"""How long to wait before the next attempt (S15)."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from noetl.errors import TemplateFailed
from noetl.model.duration import seconds
from noetl.model.outcome import Outcome
from noetl.pipeline.plan import RulePlan
from noetl.scope import Scope

DEFAULT_DELAY = 1.0


def wait_before(rule: RulePlan, attempt: int, outcome: Outcome, scope: Scope, seed: str) -> float:
    """Seconds between attempt number `attempt` and the next. `seed` makes the jitter of each wait its own."""
    delay = base_delay(rule, scope, DEFAULT_DELAY)
    match rule.then.backoff:
        case "linear":
            wait = delay * attempt
        case "exponential":
            wait = delay * 2 ** min(attempt - 1, 60)
        case _:
            wait = delay
    limit = rule.then.max_delay
    if limit is not None:
        wait = min(wait, limit)
    if rule.then.jitter:
        wait *= 0.5 + _fraction(seed) / 2
    asked = _retry_after(outcome)  # what a server asks for is not shortened by chance, only by the rule
    return max(wait, asked if limit is None else min(asked, limit))


def base_delay(rule: RulePlan, scope: Scope, default: float = 0.0) -> float:
    """The delay a rule asks for, in seconds."""
    given: Any = rule.delay(scope) if rule.delay is not None else rule.then.delay
    if given is None:
        return default
    found = seconds(given)
    if found is None:
        raise TemplateFailed(f"`delay` must be a number of seconds or a duration such as 5s, not {str(given)[:60]!r}")
    return found


def _retry_after(outcome: Outcome) -> float:
    value = outcome.error.details.get("retry_after") if outcome.error else None
    return float(value) if isinstance(value, int | float) else 0.0


def _fraction(seed: str) -> float:
    """A number from 0 to 1 that is the same for the same wait: nothing here is drawn."""
    return int.from_bytes(sha256(seed.encode()).digest()[:4], "big") / 0xFFFFFFFF
