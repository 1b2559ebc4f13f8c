"""The status of an execution."""

from __future__ import annotations

from typing import Literal, get_args

Open = Literal["pending", "running", "waiting", "paused", "cancelling"]
Ended = Literal["succeeded", "failed", "cancelled"]
Status = Literal[Open, Ended]

OPEN: tuple[Open, ...] = get_args(Open)
ENDED: tuple[Ended, ...] = get_args(Ended)
STATUSES: tuple[Status, ...] = get_args(Status)


def status_phrase(status: str) -> str:
    """The predicate after `the run`: `was cancelled`, `has already succeeded`, `is paused`."""
    if status == "cancelled":
        return "was cancelled"
    return f"has already {status}" if status in ENDED else f"is {status}"
