"""Worker processes that this process looks after: one that dies is started again."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress

from noetl.log import Log
from noetl.settings import variables

FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.5, 30.0
"""Before one that died is started again; doubled while it keeps dying."""
STEADY_SECONDS = 60.0
"""One that has lived so long is not dying all the time."""
END_SECONDS = 40.0
"""How long they may take to finish, after which they are killed."""
LEAVE_CODES = frozenset([2, 5])
"""Who ends with these will do so again: wrong usage, or a token that is not good."""


class Pool:
    """Runs `noetl worker` with the same arguments in several processes, one for each token."""

    def __init__(self, arguments: Sequence[str], tokens: Sequence[str], log: Log) -> None:
        self.arguments, self.tokens, self.log = arguments, tokens, log
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
        keeping = [asyncio.create_task(self._keep(token)) for token in self.tokens]
        ending = asyncio.create_task(self._end_in_time())
        codes = await asyncio.gather(*keeping)
        ending.cancel()
        return [code for code in codes if code]

    async def _end_in_time(self) -> None:
        await self.ended.wait()
        await asyncio.sleep(END_SECONDS)
        self.end()

    async def _keep(self, token: str) -> int:
        clock, pause = asyncio.get_running_loop().time, FIRST_PAUSE_SECONDS
        while True:
            began = clock()
            code = await self._live(token)
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

    async def _live(self, token: str) -> int:
        """One process to its end. Its standard input is a pipe from us: if that closes, we are gone. Signals of a
        terminal go to us alone, and we hand them on."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "noetl.cli", "worker", "--until-eof", *self.arguments),
            stdin=PIPE,
            stdout=DEVNULL,
            env={**variables(), "NOETL_TOKEN": token},
            start_new_session=True,
        )
        self.processes.add(process)
        code = await process.wait()
        self.processes.discard(process)
        return code
