"""kind: shell. Commands, through a shell or without one.

A template in a command given as text is data, never syntax (see `noetl/shell_text`). Commands run one after the other
in the same folder, up to the first that fails. A program gets a few variables of the worker's environment and what the
task gives it. When it has ended or timed out, all processes that it has started are ended too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct
from msgspec.structs import replace

from noetl.model.kind import Kind, doc
from noetl.model.outcome import Failure, Outcome, failed
from noetl.tools.base import Context
from noetl.tools.fields import Cwd, Env, ProcessAuth, Stdin

if TYPE_CHECKING:
    from noetl.shell_text import ShellText

SHELLS = frozenset(["sh", "bash", "dash", "ash", "busybox", "ksh", "mksh", "zsh"])
"""Shells with `${NAME}` and quotes as in POSIX."""


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    cmds: Annotated[
        str | list[str | list[str]] | None,
        doc("Commands in order: text goes through a shell, a list of words does not"),
    ] = None
    command: Annotated[str | None, doc("One command, through a shell")] = None
    shell: Annotated[str, doc("Program that runs commands given as text")] = "/bin/sh"
    env: Env = {}
    cwd: Cwd = None
    stdin: Stdin = None
    auth: ProcessAuth = None


KIND = Kind(
    name="shell",
    summary="Runs commands; the result is `{exit_code, stdout, stderr}` of the last one",
    inputs=Inputs,
    timeout=3600,
    shell=("cmds", "command"),
    outcome="shell",
    one_of=(("cmds", "command"),),
)


async def run(inputs: Inputs, context: Context) -> Outcome:
    from noetl.tools.process.program import check_arguments, program_environment

    extra = {"shell": {"exit_code": None}}
    try:
        commands = list(_commands(inputs, context))
        for argv, _ in commands:
            check_arguments(context, argv)
        outcome = failed("input", "no command to run", extra=extra)
        async with program_environment("shell", context, inputs.cwd, inputs.env, inputs.auth) as environment:
            for argv, env in commands:
                outcome = await environment.run(argv, inputs.stdin, env)
                if not outcome.ok:
                    break
        return outcome
    except Failure as failure:
        return failure.outcome if failure.outcome.extra else replace(failure.outcome, extra=extra)


async def close() -> None:
    from noetl.tools.process.program import LAUNCHERS

    LAUNCHERS.close()


def _commands(inputs: Inputs, context: Context) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Each command as words, and the variables it refers to. Templates must be bound: spliced values are not safe."""
    texts: Any = inputs.command if inputs.cmds is None else inputs.cmds
    bound: Any = context.bound.get("command" if inputs.cmds is None else "cmds")
    if not isinstance(texts, list):
        texts, bound = [texts], bound if isinstance(bound, list) else [bound]
    for number, text in enumerate(texts):
        if text == []:
            raise Failure("input", f"command {number + 1} is an empty list")
        if isinstance(text, list):
            yield text, {}
            continue
        command: ShellText | None = bound[number] if bound else None
        if command is None:
            raise Failure("internal", "the command was not prepared for a shell")
        name = inputs.shell.rpartition("/")[2]
        if command.env and name not in SHELLS:
            reason = f"templates in a command need a shell of the POSIX family, and {name!r} is none"
            raise Failure("input", f"{reason}: use `env` or a list")
        yield [inputs.shell, *(["sh"] if name == "busybox" else []), "-c", command.text], command.env
