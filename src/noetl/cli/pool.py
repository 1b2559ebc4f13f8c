"""Worker processes that this process looks after: one that dies is started again."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import click

FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.5, 30.0
"""Before one that died is started again; doubled while it keeps dying."""
STEADY_SECONDS = 60.0
"""One that has lived so long is not dying all the time."""
END_SECONDS = 40.0
"""How long they may take to finish, after which they are killed."""
LEAVE_CODES = frozenset([2, 5])
"""Who ends with these will do so again: wrong usage, or a token that is not good."""


class Pool:
    """Runs `noetl worker` in processes of their own, one for each line of arguments."""

    def __init__(self, arguments: Sequence[Sequence[str]], environment: Mapping[str, str]) -> None:
        self.arguments, self.environment = arguments, dict(environment)
        self.processes: set[Process] = set()
        self.given_up: Callable[[int], None] = lambda code: None
        """Called with the exit code of a worker that is not started again."""

    async def run(self) -> None:
        """Keep all of them alive until it is cancelled; then they drain."""
        try:
            async with asyncio.TaskGroup() as group:
                for arguments in self.arguments:
                    group.create_task(self._keep(arguments))
        finally:
            await asyncio.shield(asyncio.create_task(self.stop()))

    async def _keep(self, arguments: Sequence[str]) -> None:
        clock, pause = asyncio.get_running_loop().time, FIRST_PAUSE_SECONDS
        while True:
            began = clock()
            code = await self._live(arguments)
            if code in LEAVE_CODES:
                self.given_up(code)
                return
            pause = FIRST_PAUSE_SECONDS if clock() - began > STEADY_SECONDS else pause
            click.echo(f"noetl: a worker has ended ({code}); another is started in {pause:g} s", err=True)
            await asyncio.sleep(pause)
            pause = min(LAST_PAUSE_SECONDS, pause * 2)

    async def _live(self, arguments: Sequence[str]) -> int:
        """One process to its end. Its standard input is a pipe from us: if that closes, we are gone."""
        command = [sys.executable, "-m", "noetl.cli", "worker", "--until-eof", *arguments]
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=DEVNULL, env=self.environment)
        self.processes.add(process)
        code = await process.wait()
        self.processes.discard(process)
        return code

    async def stop(self) -> None:
        """Let them finish; who does not is killed."""
        running = list(self.processes)
        for process in running:
            with suppress(ProcessLookupError):
                process.terminate()
        try:
            async with asyncio.timeout(END_SECONDS):
                await asyncio.gather(*(process.wait() for process in running))
        except TimeoutError:
            for process in running:
                with suppress(ProcessLookupError):
                    process.kill()
            await asyncio.gather(*(process.wait() for process in running))
