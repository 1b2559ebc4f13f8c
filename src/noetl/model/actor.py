"""Who caused an event: a person, a token, a trigger, or a worker."""

from __future__ import annotations

from typing import Literal

import msgspec

ActorKind = Literal["user", "token", "schedule", "hook", "worker", "local"]


class Actor(msgspec.Struct, frozen=True):
    """The sender of a request. `local` is the user of the operating system who ran a command on a database."""

    kind: ActorKind
    name: str

    def __str__(self) -> str:
        return actor_words(self.kind, self.name)


def actor_words(kind: str, name: str) -> str:
    """A token need not have a name."""
    return f"{kind} {name}" if name else f"an unnamed {kind}"
