"""The connection to NATS, which is sought for ever and never needed.

What goes over it is a hint or a copy: the database has everything that matters. So nothing here makes anybody wait for
long. A server that is away is tried again and again in the background; one that is connected and does not answer gets
a rest; meanwhile `ask` says `Away` at once, and whoever asked goes on without. The first trouble is told, and that it
is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from noetl.errors import Away, UsageError
from noetl.log import Level
from noetl.model.outcome import Failure
from noetl.settings import NatsSettings
from noetl.tools.nats import Line, Login

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js import JetStreamContext

T = TypeVar("T")

FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.1, 5.0
"""Between two attempts to connect; doubled each time."""
STEADY_SECONDS = 10.0
"""A connection that has stood so long is not breaking all the time."""
ANSWER_SECONDS = 2.0
REST_SECONDS = 5.0
"""How long a server that did not answer is left alone."""
OPTIONS = {"no_echo": True, "ping_interval": 10, "max_outstanding_pings": 2}

Say = Callable[[Level, str], None]
"""Takes a level (`info`, `warning`) and a sentence."""


class Bus:
    """Keeps a connection while `run` runs."""

    def __init__(self, settings: NatsSettings, say: Say) -> None:
        try:
            import nats.js.errors  # noqa: F401 - is the driver there?
        except ImportError:
            raise UsageError("NATS needs a driver that is not installed: pip install 'noetl-engine[nats]'") from None
        self.login = Login(settings.servers, settings.user, settings.password, settings.token, settings.creds)
        self.on_connect: list[Callable[[], Awaitable[None]]] = []
        """Called whenever there is a new connection."""
        self._say = say
        self._line: _KeptLine | None = None
        self._trouble: str | None = "it is not connected yet"
        self._told = False
        """Whether the trouble was told."""
        self._rests_until = 0.0
        self.attempted = asyncio.Event()
        """Whether it was tried once: before that, `Away` says nothing."""

    @property
    def client(self) -> Client:
        """The connection; Away if there is none."""
        if self._line is None or self._line.over:
            raise Away(f"NATS at {self.login.shown()}: {self._trouble}")
        return self._line.client

    def status(self) -> str:
        """`ok`, or what is wrong."""
        return self._trouble or "ok"

    async def ask(self, about: str, work: Callable[[JetStreamContext], Coroutine[Any, Any, T]]) -> T:
        """What JetStream answers to work on a bucket or stream; Away if it does not."""
        from nats.errors import Error

        client, line = self.client, self._line
        assert line is not None
        if asyncio.get_running_loop().time() < self._rests_until:
            raise Away(f"NATS at {self.login.shown()}: {self._trouble}")
        try:
            answer = await line.guard(work(client.jetstream(timeout=ANSWER_SECONDS)), about)
        except (Error, OSError, Failure) as error:  # the driver's own TimeoutError is one of them
            self._rest(f"{about}: {_reason(error)}", line)
            raise Away(f"NATS at {self.login.shown()}: {self._trouble}") from error
        self._well()
        return answer

    # -- keeping it ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Connect, and connect again, until it is cancelled."""
        clock, pause = asyncio.get_running_loop().time, FIRST_PAUSE_SECONDS
        while True:
            began = clock()
            try:
                await self._connected()
            except Failure as failure:
                self.attempted.set()
                self._ill(str(failure))
            if clock() - began > STEADY_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            await asyncio.sleep(pause)
            pause = min(LAST_PAUSE_SECONDS, pause * 2)

    async def _connected(self) -> None:
        """One connection from its beginning to its end."""
        line = _KeptLine(self.login, OPTIONS)
        line.refused = self._ill
        try:
            await line.connect()
            self._line, self._rests_until = line, 0.0
            for act in self.on_connect:
                await act()
            self._well()
            self.attempted.set()
            await line.ended.wait()
            raise Failure("connect", f"the connection to NATS at {self.login.shown()} broke")
        finally:
            self._line = None
            await line.close()

    def _rest(self, why: str, line: Line) -> None:
        self._ill(why)
        if self._line is line:
            self._rests_until = asyncio.get_running_loop().time() + REST_SECONDS

    def _ill(self, why: str) -> None:
        self._trouble = why
        if not self._told:
            self._told = True
            self._say("warning", f"NATS can't be used, all goes on without it: {why}")

    def _well(self) -> None:
        self._trouble = None
        if self._told:
            self._told = False
            self._say("info", f"NATS at {self.login.shown()} can be used again")


class _KeptLine(Line):
    """A line that tells when it ends, and what it is not allowed."""

    def __init__(self, login: Login, options: dict[str, Any]) -> None:
        super().__init__(login, options)
        self.ended = asyncio.Event()
        self.refused: Callable[[str], None] = lambda why: None

    async def _erred(self, error: Exception) -> None:
        """The server does not say which call it refuses: all that wait hear of it, for all can do without."""
        self.fault = error
        if "permissions violation" in str(error).lower():
            why = f"the login has no permission: {str(error).removeprefix('nats: ')}"
            self.refused(why)
            for alarm in self.alarms:
                if not alarm.done():
                    alarm.set_exception(Failure("auth", why))

    def _ended(self, reader: asyncio.Task[Any]) -> None:
        super()._ended(reader)
        self.ended.set()


def _reason(error: Exception) -> str:
    if isinstance(error, Failure):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"no answer within {ANSWER_SECONDS:g} seconds"
    return str(getattr(error, "description", None) or error).removeprefix("nats: ") or type(error).__name__
