"""What `shell` and `script` have in common: the surroundings of a program, and the outcome of its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from noetl.model.outcome import Failure, Outcome, failed
from noetl.tools.base import Context
from noetl.tools.sandbox import Sandbox, confined, landlock, sandbox_of

if TYPE_CHECKING:
    from noetl.tools.process.output import Kept
    from noetl.tools.process.program import Ending

KEPT_BYTES = 1024 * 1024
"""Of each stream in a result."""
TAIL_BYTES = 8 * 1024
"""Of each stream in an error."""
LOG_BYTES = 16 * 1024 * 1024
LOG_LINES = 200_000
WORD_BYTES = 128 * 1024 - 1
"""What Linux takes as one argument or variable."""
ALL_BYTES = 2 * 1024 * 1024 - 64 * 1024


class Output:
    """What a call writes: into the log as it comes, and kept for its outcome."""

    def __init__(self, context: Context) -> None:
        from noetl.tools.process.output import Budget, Capture, Stream

        self.context = context
        self.budget = Budget(context.log, context.redact, LOG_BYTES, LOG_LINES)
        self.streams = {name: (Stream(name), Capture(KEPT_BYTES, TAIL_BYTES)) for name in ("stdout", "stderr")}

    def feed(self, name: str, data: bytes) -> None:
        lines, capture = self.streams[name]
        capture.feed(data)
        lines.feed(data, self.budget)

    def end(self) -> None:
        for lines, _ in self.streams.values():
            lines.end(self.budget)

    def kept(self) -> dict[str, Kept]:
        return {name: capture.kept(self.context.redact) for name, (_, capture) in self.streams.items()}


def outcome_of(kind: str, name: str, ending: Ending, kept: dict[str, Kept]) -> Outcome:
    """The result of a program that ended well, else an error with the end of what it wrote."""
    if ending.code == 0 and ending.broken is None:
        result: dict[str, Any] = {"exit_code": 0} | {stream: one.text for stream, one in kept.items()}
        cut = [stream for stream, one in kept.items() if one.cut]
        return Outcome(result=result | ({"cut": cut} if cut else {}), extra={kind: {"exit_code": 0}})
    code = ending.code if ending.code >= 0 else 128 - ending.code  # as shells count signals
    last = kept["stderr"].tail.strip().rpartition("\n")[2][:300]
    message = f"{name} {ending}" + (f": {last}" if last and ending.broken is None else "")
    details: dict[str, Any] = {"exit_code": code} | {stream: one.tail for stream, one in kept.items()}
    return failed("exit_code", message, extra={kind: {"exit_code": code}}, **details)


class Surroundings:
    """Where the programs of one call run: folder, environment, sandbox."""

    def __init__(self, kind: str, context: Context, scratch: str, cwd: str, env: dict[str, str], box: Sandbox) -> None:
        self.kind, self.context, self.scratch, self.cwd, self.env, self.box = kind, context, scratch, cwd, env, box

    async def run(
        self,
        argv: list[str],
        stdin: bytes | None,
        more_env: Mapping[str, str] | None = None,
        *,
        read: Iterable[str] = (),
    ) -> Outcome:
        """Run a program until it ends. `read`: files that it can read in every sandbox."""
        from noetl.tools.process.program import Order, run_program

        env = {**self.env, **(more_env or {})}
        self._check_size(argv, env)
        folders = [self.scratch, self.cwd]
        order = Order(
            confined(self.box, argv, self.cwd, folders),
            env,
            self.cwd,
            self.box.limits(),
            landlock(self.box, folders, read=read),
        )
        output = Output(self.context)
        try:
            ending = await run_program(order, stdin, output.feed)
        finally:
            output.end()
        kept = output.kept()
        said = kept["stderr"].tail.strip()
        if self.box.kind == "bubblewrap" and ending.code == 1 and said.startswith("bwrap: "):
            raise Failure("not_found", f"the sandbox could not be made: {said}")
        return outcome_of(self.kind, argv[0], ending, kept)

    def _check_size(self, argv: list[str], env: Mapping[str, str]) -> None:
        """Refuse what the system would refuse with less of a message."""
        sizes = {f"variable {name}": len(encoded(f"{name}={value}")) for name, value in env.items()}
        sizes |= {f"argument {place}": len(encoded(word)) for place, word in enumerate(argv)}
        for what, size in sizes.items():
            if size > WORD_BYTES:
                message = f"{what} of the program takes {size:,} bytes, more than {WORD_BYTES:,}: use `stdin` or a file"
                raise Failure("too_large", message)
        if sum(sizes.values()) > ALL_BYTES:
            message = f"arguments and variables take more than {ALL_BYTES:,} bytes: use `stdin` or a file"
            raise Failure("too_large", message)


@asynccontextmanager
async def surroundings(
    kind: str, context: Context, cwd: str | None, env: Mapping[str, Any], fields: Mapping[str, Any]
) -> AsyncIterator[Surroundings]:
    """A fresh folder that is removed in the end, and an environment of what was given and little else."""
    from tempfile import mkdtemp

    box = sandbox_of(context.spec)
    scratch = mkdtemp(prefix="noetl-")
    try:
        made = _environment(context, scratch, env, fields)
        yield Surroundings(kind, context, scratch, _folder(cwd) if cwd else scratch, made, box)
    finally:
        await _remove(scratch)


def _folder(cwd: str) -> str:
    import os

    if not os.path.isdir(cwd):
        raise Failure("not_found", f"the folder {cwd!r} does not exist on this worker")
    return os.path.abspath(cwd)


async def _remove(folder: str) -> None:
    """Remove a folder; one with much in it keeps nobody waiting."""
    import asyncio
    import os
    from shutil import rmtree

    try:
        os.rmdir(folder)
    except OSError:
        await asyncio.shield(asyncio.to_thread(rmtree, folder, ignore_errors=True))


def _environment(context: Context, scratch: str, given: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, str]:
    import os

    from noetl.tools.process.environment import inherited

    env = inherited()
    env.setdefault("PATH", os.defpath)
    env |= {"TMPDIR": scratch, "NOETL_ACTION_ID": context.action, "NOETL_EXECUTION_ID": context.execution}
    env["NOETL_ATTEMPT"] = str(context.attempt)
    env |= {f"NOETL_AUTH_{name.upper()}": word(value) for name, value in fields.items()}
    for name, value in given.items():
        if not name or "=" in name or "\0" in name:
            raise Failure("input", f"{name!r} can't be the name of an environment variable")
        if value is None:
            env.pop(name, None)
        else:
            env[name] = word(value)
    for name, value in env.items():
        if "\0" in value:
            raise Failure("input", f"the variable {name} holds the character NUL, which no environment can")
    return env


def word(value: Any) -> str:
    """A value as an argument or a variable."""
    import msgspec

    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else msgspec.json.encode(value).decode()


def check_arguments(context: Context, words: Iterable[str]) -> None:
    """Refuse a secret among arguments, which every user of the machine can read."""
    for place, one in enumerate(words):
        if "\0" in one:
            raise Failure("input", f"argument {place} holds the character NUL, which no argument can")
        if context.redact(one) != one:
            message = (
                f"argument {place} holds a secret, and other users of the machine can read arguments: "
                "pass it by `env`, `stdin` or `auth`"
            )
            raise Failure("input", message)


async def credential(context: Context, auth: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields that a program gets as variables."""
    return await context.credential(auth) if auth else {}


def stdin_bytes(text: str | bytes | None) -> bytes | None:
    return encoded(text) if isinstance(text, str) else text


def encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Failure(
            "input", "a text holds half a character (a lone surrogate), which no program can be given"
        ) from None
