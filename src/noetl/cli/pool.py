"""Worker processes that this process looks after: one that dies is started again."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from noetl.log import Log
from noetl.settings import variables

FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.5, 30.0
"""Before one that died is started again; doubled while it keeps dying."""
STEADY_SECONDS = 60.0
"""One that has lived so long is not dying all the time."""
SPARE_SECONDS = 10.0
"""How much longer than their grace time they may take to end, after which they are killed."""
LEAVE_CODES = frozenset([2, 5])
"""Who ends with these will do so again: wrong usage, or a token that is not good."""


class Member(NamedTuple):
    """A process of a pool."""

    token: str
    name: str | None = None
    """What it is called, also when it was started again; None: it makes a name itself."""


class Pool:
    """Runs `noetl worker` in several processes, each with a token and a name of its own."""

    def __init__(self, arguments: Sequence[str], members: Sequence[Member], grace_seconds: float, log: Log) -> None:
        self.arguments, self.members, self.log = [*arguments, "--grace", str(grace_seconds)], members, log
        self.end_seconds = grace_seconds + SPARE_SECONDS
        self.processes: set[Process] = set()
        self.ended = asyncio.Event()

    def end(self) -> None:
        """Let them finish; asked twice, they are killed."""
        for process in list(self.processes):
            with suppress(ProcessLookupError):
                process.kill() if self.ended.is_set() else process.terminate()
        self.ended.set()

    async def run(self) -> list[int]:
        """Keep them alive until the end; the exit codes of those that could not be kept."""
        keeping = [asyncio.create_task(self._keep(member)) for member in self.members]
        ending = asyncio.create_task(self._end_in_time())
        codes = await asyncio.gather(*keeping)
        ending.cancel()
        return [code for code in codes if code]

    async def _end_in_time(self) -> None:
        await self.ended.wait()
        await asyncio.sleep(self.end_seconds)
        self.end()

    async def _keep(self, member: Member) -> int:
        clock, pause = asyncio.get_running_loop().time, FIRST_PAUSE_SECONDS
        while True:
            began = clock()
            code = await self._live(member)
            if self.ended.is_set():
                return 0
            if code in LEAVE_CODES:
                return code
            pause = FIRST_PAUSE_SECONDS if clock() - began > STEADY_SECONDS else pause
            self.log.write("warning", f"a worker has ended; another is started in {pause:g} s", code=code)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self.ended.wait()
                return 0
            pause = min(LAST_PAUSE_SECONDS, pause * 2)

    async def _live(self, member: Member) -> int:
        """One process to its end. Its standard input is a pipe from us: if that closes, we are gone. Signals of a
        terminal go to us alone, and we hand them on."""
        named = ["--name", member.name] if member.name is not None else []
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "noetl.cli", "worker", "--until-eof", *self.arguments, *named),
            stdin=PIPE,
            stdout=DEVNULL,
            env={**variables(), "NOETL_TOKEN": member.token},
            start_new_session=True,
        )
        self.processes.add(process)
        code = await process.wait()
        self.processes.discard(process)
        return code
