"""kind: script. A script in a file or in a result.

The script of a `ref` is written to a file that only this call can read. A script is never rendered: pass values by
`argv`, `env` or `stdin`. Environment, folder, output and outcome are those of kind `shell`.
"""

from __future__ import annotations

import os
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import replace

from noetl.model.kind import Kind, doc
from noetl.model.outcome import Failure, Outcome
from noetl.tools.base import Context
from noetl.tools.fields import Cwd, Env, ProcessAuth, Scalar, Stdin
from noetl.tools.shell import close as close


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    path: Annotated[str | None, doc("File of the script on the worker, relative to the playbook")] = None
    ref: Annotated[Any, doc("Result that is the script: its text, or a reference to it")] = None
    interpreter: Annotated[
        str | list[str] | None, doc("Program that runs it, with options as a list; by default that of its first line")
    ] = None
    argv: Annotated[list[Scalar], doc("Arguments of the script")] = []
    env: Env = {}
    cwd: Cwd = None
    stdin: Stdin = None
    auth: ProcessAuth = None


KIND = Kind(
    name="script",
    summary="Runs a script file; the result is `{exit_code, stdout, stderr}`",
    inputs=Inputs,
    timeout=3600,
    outcome="script",
    one_of=(("path", "ref"),),
)


async def run(inputs: Inputs, context: Context) -> Outcome:
    from noetl.tools.process.program import check_arguments, program_environment, word

    try:
        async with program_environment("script", context, inputs.cwd, inputs.env, inputs.auth) as environment:
            if inputs.path is not None:
                file, first = _from_file(inputs.path, context.folder)
            else:
                file, first = _written(inputs.ref, environment.scratch, context)
            argv = [*_interpreter(inputs.interpreter, first), file, *map(word, inputs.argv)]
            check_arguments(context, argv)
            return await environment.run(argv, inputs.stdin, read=[file])
    except Failure as failure:
        outcome = failure.outcome
        return outcome if outcome.extra else replace(outcome, extra={"script": {"exit_code": None}})


def _from_file(path: str, folder: str) -> tuple[str, bytes]:
    from noetl.tools.files import task_file

    path = os.path.join(folder, path)
    task_file(path, "path")
    try:
        with open(path, "rb") as file:
            return os.path.abspath(path), file.readline(256)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise Failure("not_found", f"the script {path!r} cannot be read on this worker: {reason}") from None


def _written(content: Any, folder: str, context: Context) -> tuple[str, bytes]:
    """The script of a result as a file, and its first line. A secret in it would outlast a killed worker."""
    if isinstance(content, str | bytes) and context.redact(content) != content:
        message = "the script contains a secret, and a script is written to disk: pass it by `env`, `stdin` or `auth`"
        raise Failure("input", message)
    if isinstance(content, str):
        content = content.encode()
    if not isinstance(content, bytes):
        raise Failure("input", "`ref` must be a text or a reference to one")
    path = os.path.join(folder, "script")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700), "wb") as file:
        file.write(content)
    return path, content[:256].partition(b"\n")[0]


def _interpreter(explicit: str | list[str] | None, first_line: bytes) -> list[str]:
    if isinstance(explicit, str):
        return [explicit]
    if explicit:
        return explicit
    if not first_line.startswith(b"#!"):
        return ["/bin/sh"]
    program, _, option = first_line[2:].decode("utf-8", "replace").strip().partition(" ")
    return [part for part in (program, option.strip()) if part]
