"""One object for each event loop."""

from __future__ import annotations

import atexit
import os
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


class PerLoop(Generic[T]):
    """Objects that end child processes when they are closed: with their loop, or at the latest with this process."""

    def __init__(self, create: Callable[[AbstractEventLoop], T]) -> None:
        self._create, self._process = create, os.getpid()
        self._objects: dict[AbstractEventLoop, T] = {}
        atexit.register(self._close_all)

    def get(self, loop: AbstractEventLoop) -> T:
        """The object of a loop. Closes those of loops that were closed before."""
        if loop not in self._objects:
            for other in [other for other in self._objects if other.is_closed()]:
                self.close(other)
            self._objects[loop] = self._create(loop)
        return self._objects[loop]

    def close(self, loop: AbstractEventLoop) -> None:
        if loop in self._objects:
            self._objects.pop(loop).close()

    def _close_all(self) -> None:
        if os.getpid() == self._process:  # a forked copy must not end the processes of the original
            for loop in list(self._objects):
                self.close(loop)
