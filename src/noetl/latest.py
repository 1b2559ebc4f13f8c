"""A dict with a limited number of entries, for caches that may drop the least recent ones."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Latest(OrderedDict[Key, Value]):
    """Setting an entry makes it the latest one, and drops the oldest one above the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def use(self, key: Key) -> Value | None:
        """The value of a key, which becomes the latest one; None if there is none."""
        if key not in self:
            return None
        self.move_to_end(key)
        return self[key]

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self.limit:
            self.popitem(last=False)
