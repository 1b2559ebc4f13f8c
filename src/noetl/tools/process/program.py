"""One program of `shell`, `script` or `container`: its environment, its run, its output and its outcome."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, NamedTuple

import msgspec

from noetl.model.outcome import Failure, Outcome, failed
from noetl.tools.base import Context
from noetl.tools.process.launcher import READ_BYTES, ForkedChild, Launcher, PerLoop, ending, inherited
from noetl.tools.process.output import Capture, Captured, LogBudget, OutputLines
from noetl.tools.sandbox import Sandbox, confined, landlock, sandbox_of

MAX_WORD_BYTES = 128 * 1024 - 1
"""The limit of Linux for one argument or variable."""
MAX_TOTAL_BYTES = 2 * 1024 * 1024 - 64 * 1024
END_SECONDS = 5.0
"""How long a program may take to end: longer than the grace period of its supervisor."""


class Ending(NamedTuple):
    """The exit code of a program, or the negative number of a signal, and the limit it exceeded."""

    code: int
    broken: str | None

    def __str__(self) -> str:
        return ending(self.code) if self.broken is None else f"was ended: {self.broken}"


class ProcessOutput:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.budget = LogBudget(context.log, context.redact, max_bytes=16 * 1024 * 1024, max_lines=200_000)
        self.streams = {name: (OutputLines(name), Capture()) for name in ("stdout", "stderr")}

    def feed(self, name: str, data: bytes) -> None:
        lines, capture = self.streams[name]
        capture.feed(data)
        lines.feed(data, self.budget)

    def end(self) -> None:
        for lines, _ in self.streams.values():
            lines.end(self.budget)

    def captured(self) -> dict[str, Captured]:
        return {name: capture.captured(self.context.redact) for name, (_, capture) in self.streams.items()}


def outcome_of(kind: str, name: str, ending: Ending, output: dict[str, Captured]) -> Outcome:
    if ending.code == 0 and ending.broken is None:
        result: dict[str, Any] = {"exit_code": 0} | {name: captured.text for name, captured in output.items()}
        cut = [name for name, captured in output.items() if captured.cut]
        return Outcome(result=result | ({"cut": cut} if cut else {}), extra={kind: {"exit_code": 0}})
    code = ending.code if ending.code >= 0 else 128 - ending.code  # as shells encode signals
    last = output["stderr"].tail.strip().rpartition("\n")[2][:300]
    message = f"{name} {ending}" + (f": {last}" if last and ending.broken is None else "")
    details: dict[str, Any] = {"exit_code": code} | {name: captured.tail for name, captured in output.items()}
    is_lost = ending.code == -signal.SIGKILL and ending.broken is None
    return failed("exit_code", message, retryable=is_lost, extra={kind: {"exit_code": code}}, **details)


class ProgramEnvironment(NamedTuple):
    kind: str
    context: Context
    scratch: str
    cwd: str
    env: dict[str, str]
    box: Sandbox

    async def run(
        self, argv: list[str], stdin: str | None, more_env: Mapping[str, str] = {}, *, read: Iterable[str] = ()
    ) -> Outcome:
        """Run a program until it ends. `read`: files that it can read in every sandbox."""
        env = {**self.env, **more_env}
        _check_size(argv, env)
        folders = [self.scratch, self.cwd]
        command = confined(self.box, argv, self.cwd, folders)
        request: dict[str, Any] = {"argv": command, "env": env, "cwd": self.cwd, "limits": self.box.limits()}
        request["landlock"] = landlock(self.box, folders, read=read)
        output = ProcessOutput(self.context)
        try:
            ending = await run_program(request, None if stdin is None else encode(stdin), output.feed)
        finally:
            output.end()
        captured = output.captured()
        error = captured["stderr"].tail.strip()
        if self.box.kind == "bubblewrap" and ending.code == 1 and error.startswith("bwrap: "):
            raise Failure("not_found", f"the sandbox could not be created: {error}")
        return outcome_of(self.kind, argv[0], ending, captured)


def _check_size(argv: list[str], env: Mapping[str, str]) -> None:
    sizes = {f"variable {name}": len(encode(f"{name}={value}")) for name, value in env.items()}
    sizes |= {f"argument {place}": len(encode(word)) for place, word in enumerate(argv)}
    for name, size in sizes.items():
        if size > MAX_WORD_BYTES:
            message = f"{name} of the program has {size:,} bytes, more than {MAX_WORD_BYTES:,}: use `stdin` or a file"
            raise Failure("too_large", message)
    if sum(sizes.values()) > MAX_TOTAL_BYTES:
        message = f"arguments and variables take more than {MAX_TOTAL_BYTES:,} bytes: use `stdin` or a file"
        raise Failure("too_large", message)


@asynccontextmanager
async def program_environment(
    kind: str, context: Context, cwd: str | None, env: Mapping[str, Any], auth: str | Mapping[str, Any] | None
) -> AsyncIterator[ProgramEnvironment]:
    """A new folder, which is removed at the end, and a clean environment with the fields of a credential."""
    fields = await context.credential(auth) if auth else {}
    box = sandbox_of(context.spec)
    scratch = mkdtemp(prefix="noetl-")
    try:
        variables = _variables(context, scratch, env, fields)
        yield ProgramEnvironment(kind, context, scratch, _folder(cwd) if cwd else scratch, variables, box)
    finally:
        try:
            os.rmdir(scratch)
        except OSError:  # it is not empty: do not block the event loop
            await asyncio.shield(asyncio.to_thread(rmtree, scratch, ignore_errors=True))


def _folder(cwd: str) -> str:
    if not os.path.isdir(cwd):
        raise Failure("not_found", f"the folder {cwd!r} does not exist on this worker")
    return os.path.abspath(cwd)


def _variables(context: Context, scratch: str, own: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, str]:
    env = {"PATH": os.defpath} | inherited() | {"TMPDIR": scratch} | call_variables(context)
    env |= {f"NOETL_AUTH_{name.upper()}": word(value) for name, value in fields.items()}
    for name, value in own.items():
        if not name or "=" in name or "\0" in name:
            raise Failure("input", f"{name!r} cannot be the name of an environment variable")
        if value is None:
            env.pop(name, None)
        else:
            env[name] = word(value)
    for name, value in env.items():
        if "\0" in value:
            raise Failure("input", f"the variable {name} has the character NUL, which is invalid in an environment")
    return env


def call_variables(context: Context) -> dict[str, str]:
    ids = {"NOETL_ACTION_ID": context.action, "NOETL_EXECUTION_ID": context.execution}
    return ids | {"NOETL_ATTEMPT": str(context.attempt)}


def word(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else msgspec.json.encode(value).decode()


def check_arguments(context: Context, words: Iterable[str]) -> None:
    """Failure if an argument has a secret: every user of the machine can read arguments."""
    for place, text in enumerate(words):
        if "\0" in text:
            raise Failure("input", f"argument {place} has the character NUL, which is invalid in an argument")
        if context.redact(text) != text:
            reason = f"argument {place} has a secret, and other users of the machine can read arguments"
            raise Failure("input", f"{reason}: pass it by `env`, `stdin` or `auth`")


def encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Failure("input", "a text has a lone surrogate, which cannot be passed to a program") from None


async def run_program(request: dict[str, Any], stdin: bytes | None, output: Callable[[str, bytes], None]) -> Ending:
    """Run a program to its end, with all that it has started. Cancelling ends it. Failure if it cannot be started."""
    program = Program(LAUNCHERS.get(), output)
    try:
        program.start(stdin)
        response = await program.response(request)
    except asyncio.CancelledError:
        await program.end()
        raise
    finally:
        try:
            program.drain()
        finally:
            program.close()
            if not program.end_reason.done():
                program.launcher.kill(program)
    if "start_error" in response:
        raise _start_failure(request, response["start_error"])
    return Ending(response["code"], response["broken"])


class Program(ForkedChild):
    def __init__(self, launcher: Launcher, on_output: Callable[[str, bytes], None]) -> None:
        super().__init__(launcher)
        self.on_output = on_output
        self.end_reason: asyncio.Future[str] = self.loop.create_future()

    def output(self, name: str, data: bytes) -> None:
        if data:
            self.on_output(name, data)

    def ended(self, reason: str, *, lost: bool) -> None:
        if not self.end_reason.done() and not self.loop.is_closed():
            self.end_reason.set_result(reason)

    def start(self, stdin: bytes | None) -> None:
        try:
            with ExitStack() as stack:
                files: list[int] = []
                if stdin is not None:
                    file = stack.enter_context(open(os.memfd_create("stdin"), "wb"))
                    file.write(stdin)
                    file.seek(0)
                    files.append(file.fileno())
                self.launcher.fork(self, {}, *files)
        except OSError as error:
            raise Failure("internal", f"no process could be started: {error}", retryable=True) from None

    async def response(self, request: dict[str, Any]) -> dict[str, Any]:
        frame = msgspec.json.encode(request)
        with suppress(ConnectionError):  # it has died, which is reported below
            await self.loop.sock_sendall(self.channel, len(frame).to_bytes(4, "little") + frame)
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "little"):
            try:
                chunk = await self.loop.sock_recv(self.channel, READ_BYTES)
            except ConnectionError:
                chunk = b""
            if not chunk:
                reason = await self.end_reason
                raise Failure("internal", f"the process that ran the program {reason}", retryable=True)
            data += chunk
        await asyncio.wait((self.end_reason,), timeout=END_SECONDS)
        return msgspec.json.decode(data[4:], type=dict[str, Any])

    async def end(self) -> None:
        """End the program: through its supervisor, which terminates it gracefully, or else through the zygote."""
        if self.number is None:
            return
        with suppress(OSError):
            self.channel.send(b"T")
        await asyncio.wait((self.end_reason,), timeout=END_SECONDS)
        if not self.end_reason.done():
            self.launcher.kill(self)
            await asyncio.wait((self.end_reason,), timeout=END_SECONDS)


LAUNCHERS = PerLoop(lambda loop: Launcher(loop, ("supervisor",), "supervisor.serve(control, linux)"))


def _start_failure(request: dict[str, Any], error: str) -> Failure:
    file, number, text = error.split("\0")
    program = request["argv"][0]
    match int(number or 0):
        case errno.ENOENT | errno.ENOTDIR if file == request["cwd"]:
            return Failure("not_found", f"the folder {file!r} does not exist on this worker")
        case errno.ENOENT | errno.ENOTDIR:
            return Failure("not_found", f"the program {program!r} is not on this worker: give its path, or install it")
        case errno.EACCES | errno.ENOEXEC:
            return Failure("input", f"{file or program!r} cannot be run: {text.lower()}")
        case errno.E2BIG:
            message = "arguments and variables are larger than this system allows: use `stdin` or a file"
            return Failure("too_large", message)
        case code if code == errno.ENAMETOOLONG or not program:
            return Failure("input", f"{program[:60]!r} cannot be the name of a program")
    return Failure("internal", f"the program could not be started: {text}")
