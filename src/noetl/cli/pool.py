"""Supervises worker processes: one that dies is restarted.

A worker gets its token and the few NOETL_ settings that it needs as one line of JSON on standard input, because other
processes of the same user can read the environment of a process. It inherits the environment of this process, except
NOETL_ variables and the variables with the server's credentials for its database and its trace collector.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from noetl.errors import UsageError
from noetl.file_access import protected
from noetl.log import Log
from noetl.settings import variables

MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.5, 30.0
"""Backoff before a dead worker is restarted; doubled while it keeps dying."""
BACKOFF_RESET_SECONDS = 60.0  # a worker that ran this long is restarted with the first backoff
KILL_MARGIN_SECONDS = 10.0  # time beyond the grace time after which workers are killed
FINAL_EXIT_CODES = frozenset([2, 5])  # exit codes after which a restart is useless: wrong usage, or an invalid token
SERVER_ONLY = ("NOETL_", "PG", "OTEL_")  # prefixes of variables that workers do not inherit
OF_USER = frozenset(["TMPDIR", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME"])
"""Variables with folders of this process's user."""
POLICY = ("NOETL_SECRET_FILES", "NOETL_TOOL_FILES")  # settings that apply to workers as well
WORKERS_USER_HELP = (
    "User name or id of the workers; needs root. Task code can then read neither the database nor the keys."
)


class WorkersUser(NamedTuple):
    """A user of this machine, for workers whose task code must not read the files of the server."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str
    home: str  # working directory of the workers; `/` if the user has no home

    @classmethod
    def named(cls, text: str) -> WorkersUser:
        """The user with a name or id; UsageError if workers cannot run as that user. An id needs no passwd entry, since
        containers often have none: the group id is then the same number."""
        if os.geteuid() != 0:
            raise UsageError(
                f"--workers-user {text} needs root: only root can start processes as another user. Start the server as "
                f"root, or run `noetl worker` as that user yourself"
            )
        try:
            entry = pwd.getpwuid(int(text)) if text.isdecimal() else pwd.getpwnam(text)
        except (KeyError, OverflowError):
            if not text.isdecimal():
                create = f"useradd --system {text}"
                raise UsageError(f"--workers-user: user {text!r} does not exist; create it with: {create}") from None
            if int(text) >= 2**32 - 1:
                raise UsageError(f"--workers-user: {text} is not a valid user id") from None
            user = cls(int(text), int(text), (), str(int(text)), "/")
        else:
            groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
            at_home = os.path.isdir(entry.pw_dir) and os.stat(entry.pw_dir).st_uid == entry.pw_uid
            user = cls(entry.pw_uid, entry.pw_gid, groups, entry.pw_name, entry.pw_dir if at_home else "/")
        if user.uid == 0:
            raise UsageError(f"--workers-user {text} is root, who can read everything; name an unprivileged user")
        return user


class Member(NamedTuple):
    token: str
    name: str | None = None  # its name, also after a restart; None: it generates one


class Pool(msgspec.Struct, eq=False):
    """Runs `noetl worker` in several processes, each with a token and a name of its own."""

    arguments: Sequence[str]
    members: Sequence[Member]
    grace_seconds: float
    log: Log
    settings: dict[str, str] = {}  # further NOETL_ variables for each worker
    user: WorkersUser | None = None  # the user of the workers, if it is another one
    processes: set[Process] = set()
    ended: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    def end(self) -> None:
        """Stop the workers; the second call kills them."""
        for process in list(self.processes):
            with suppress(ProcessLookupError):
                process.kill() if self.ended.is_set() else process.terminate()
        self.ended.set()

    async def run(self) -> list[int]:
        """Run the workers until `end`; returns the exit codes of those that were not restarted."""

        async def end_in_time() -> None:
            await self.ended.wait()
            await asyncio.sleep(self.grace_seconds + KILL_MARGIN_SECONDS)
            self.end()

        tasks = [asyncio.create_task(self._restart_until_end(member)) for member in self.members]
        ending = asyncio.create_task(end_in_time())
        codes = await asyncio.gather(*tasks)
        ending.cancel()
        return [code for code in codes if code]

    async def _restart_until_end(self, member: Member) -> int:
        clock, pause = asyncio.get_running_loop().time, MIN_BACKOFF_SECONDS
        while True:
            started = clock()
            code = await self._run_process(member)
            if self.ended.is_set() or code == 0:  # an operator has stopped it
                return 0
            if code in FINAL_EXIT_CODES:
                return code
            pause = MIN_BACKOFF_SECONDS if clock() - started > BACKOFF_RESET_SECONDS else pause
            self.log.write("warning", f"a worker died, restarting it in {pause:g} s", code=code)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self.ended.wait()
                return 0
            pause = min(MAX_BACKOFF_SECONDS, pause * 2)

    async def _run_process(self, member: Member) -> int:
        """Run one process until it ends. Its standard input is a pipe that delivers its settings; end of file means
        that this process is gone. Terminal signals reach only this process, which forwards them."""
        own = variables()
        environment = {name: value for name, value in own.items() if not name.startswith(SERVER_ONLY)}
        options: dict[str, Any] = {}
        if (user := self.user) is not None:
            environment = {name: value for name, value in environment.items() if name not in OF_USER}
            environment |= {"HOME": user.home, "USER": user.name, "LOGNAME": user.name}
            options = {"user": user.uid, "group": user.gid, "extra_groups": user.groups}
            options |= {"cwd": user.home, "umask": 0o077}
        arguments = ["--grace", str(self.grace_seconds), *self.arguments]
        arguments += ["--name", member.name] if member.name is not None else []
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "noetl.cli", "worker", "--until-eof", *arguments),
            stdin=PIPE,
            stdout=DEVNULL,
            env=environment,
            start_new_session=True,
            **options,
        )
        settings = {name: value for name in POLICY if (value := own.get(name))} | self.settings
        settings |= {"NOETL_PROTECTED_FILES": os.pathsep.join(protected()), "NOETL_TOKEN": member.token}
        settings["NOETL_INSECURE"] = "1"  # the parent process has checked the address
        assert process.stdin is not None
        with suppress(ConnectionError):  # the worker has died: its exit code has the reason
            process.stdin.write(msgspec.json.encode(settings) + b"\n")
            await process.stdin.drain()
        self.processes.add(process)
        code = await process.wait()
        self.processes.discard(process)
        return code
