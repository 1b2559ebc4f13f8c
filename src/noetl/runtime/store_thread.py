"""The one thread in which a store is asked.

A hop to another thread and back costs more than most questions do. So what is asked while the thread is busy is taken
along in one go, and the answers come back together. What many ask at once, such as which playbook a path means, is
looked up once for all of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

Value = TypeVar("Value")

SOON_SECONDS = 0.001
"""Answers wait no longer than this for those of other questions."""


class Question(NamedTuple):
    """A call on its way to the thread."""

    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    answer: asyncio.Future[Any]
    shared: bool


class Answered(NamedTuple):
    """A call on its way back."""

    answer: asyncio.Future[Any]
    value: Any
    error: BaseException | None


class StoreThread(ThreadPoolExecutor):
    """Asks in one thread, in the order of the questions. Belongs to one event loop."""

    def __init__(self) -> None:
        super().__init__(1, "noetl-store")
        self._asked: deque[Question] = deque()

    async def ask(self, call: Callable[..., Value], *arguments: Any) -> Value:
        """What the call returns."""
        return await self._put(call, arguments, shared=False)

    async def look(self, call: Callable[..., Value], *arguments: Any) -> Value:
        """The same for a call that only reads: if others ask the same meanwhile, they share an answer that is no older
        than their questions."""
        return await self._put(call, arguments, shared=True)

    def _put(self, call: Callable[..., Value], arguments: tuple[Any, ...], *, shared: bool) -> asyncio.Future[Value]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Value] = loop.create_future()
        self._asked.append(Question(call, arguments, answer, shared))
        if len(self._asked) == 1:  # else the thread has not taken an earlier one yet, and will find this one behind it
            try:
                self.submit(self._answer_all, loop)
            except RuntimeError:  # it was shut down
                self._asked.clear()
                raise
        return answer

    def _answer_all(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._asked:
            self._answer_some(loop, len(self._asked))

    def _answer_some(self, loop: asyncio.AbstractEventLoop, count: int) -> None:
        known: dict[tuple[Any, ...], Answered] = {}
        done: list[Answered] = []
        since = perf_counter()
        for _ in range(count):
            question = self._asked.popleft()
            done.append(_answered(question, known))
            if perf_counter() - since > SOON_SECONDS:
                _bring(loop, done)
                done, since = [], perf_counter()
        _bring(loop, done)


def _answered(question: Question, known: dict[tuple[Any, ...], Answered]) -> Answered:
    """The answer, which may be known: whoever asked later in the same go has asked before it was found."""
    call, arguments, answer, shared = question
    if not shared:
        return _tried(call, arguments, answer)
    key = (call, *arguments)
    if key not in known:
        known[key] = _tried(call, arguments, answer)
    return known[key]._replace(answer=answer)


def _tried(call: Callable[..., Any], arguments: tuple[Any, ...], answer: asyncio.Future[Any]) -> Answered:
    try:
        return Answered(answer, call(*arguments), None)
    except BaseException as error:  # whoever asked has to deal with it, as with an executor
        return Answered(answer, None, error)


def _bring(loop: asyncio.AbstractEventLoop, done: list[Answered]) -> None:
    if done and not loop.is_closed():
        loop.call_soon_threadsafe(_deliver, done)


def _deliver(done: list[Answered]) -> None:
    for answer, value, error in done:
        if answer.done():  # nobody waits any more
            continue
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)
