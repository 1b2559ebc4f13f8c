"""kind: python. A piece of Python in a child process.

The code is in the playbook (`code`) or in a file beside it (`file`); neither is rendered. It can import the modules
beside the playbook if that is a file on the worker, and the packages of `requirements`.
The args are variables of the code, and its variable `result` is the result. Code that sets none but defines `main` has
it called with those args that it accepts; `async def main` is awaited. `sys.exit()` ends the code early, with an error
unless its argument is missing or 0. A child is reused for further calls of the same execution (see `python_child`):
each has a new namespace, environment and folder, but imported modules stay as they are.
"""

from __future__ import annotations

import os
import sys
from hashlib import sha256
from typing import Annotated, Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from noetl.model.kind import Kind, doc
from noetl.model.outcome import Failure, Outcome, failed
from noetl.tools.base import Context
from noetl.tools.sandbox import PROCESSES, confined_python, landlock, sandbox_of

MAX_CALL_BYTES = 200 * 1024 * 1024
MEMORY_BYTES = 2 * 1024**3
"""Memory that a child may allocate, unless the sandbox sets a limit."""
DEFAULT_SETTINGS = {"memory_bytes": MEMORY_BYTES, "processes": PROCESSES}
MAX_LINE = 400
"""Characters of a line of a traceback."""
LARGE_BYTES = 1024 * 1024
NO_ERROR = {"py": {"exception_type": None}}


class Import(Struct, forbid_unknown_fields=True, kw_only=True):
    from_: Annotated[str, doc("Module")] = field(name="from")
    import_: Annotated[str | None, doc("Name in the module; the module itself where it is missing")] = field(
        name="import", default=None
    )


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    code: Annotated[
        str | None, doc("Program: `args` are its variables, `result` is its result, or `def main(**args)`")
    ] = None
    file: Annotated[
        str | dict[str, str] | None,
        doc("File with the program, relative to the playbook"),
    ] = None
    requirements: Annotated[list[str], doc("Packages to install, as pip takes them")] = []
    libs: Annotated[
        list[str] | dict[str, str | Import],
        doc("Modules to import first: a list, or a map of the name to use to the module, or to `{from, import}`"),
    ] = {}
    auth: Annotated[
        str | dict[str, Any] | None, doc("Keychain entry, or a map of several, that the code finds in `auth`")
    ] = None


KIND = Kind(
    name="python",
    summary="Runs Python code in a process of its own",
    inputs=Inputs,
    timeout=3600,
    verbatim=("code", "file", "requirements"),
    takes_args=True,
    outcome="py",
    one_of=(("code", "file"),),
)


class ChildError(Struct):
    kind: str
    message: str
    exception_type: str | None
    traceback: list[str]
    line: int | None = None
    column: int = 1


def _foreign(value: Any) -> Any:
    """A value that is not plain data: a reference to a stored result is a map that describes it."""
    if hasattr(value, "as_data"):
        return value.as_data()
    raise TypeError(f"a value of type {type(value).__name__} cannot be passed to code")


_encode = msgspec.json.Encoder(enc_hook=_foreign).encode
_decode = msgspec.json.Decoder().decode
_decode_error = msgspec.json.Decoder(ChildError).decode


async def run(inputs: Inputs, context: Context) -> Outcome:
    from noetl.tools.python_child.pool import POOLS

    try:
        auth: dict[str, Any] | None = None
        if inputs.auth and isinstance(inputs.auth, dict):
            auth = {name: await context.credential(entry) for name, entry in inputs.auth.items()}
        elif inputs.auth:
            auth = await context.credential(inputs.auth)
        code, (file, line) = inputs.code, context.source or (f"<task {context.task}>", 1)
        if code is None:
            file, line, code = _program(inputs.file)
        packages = await _packages(inputs.requirements, context) if inputs.requirements else []
        name, settings = _lane(context, auth, packages)
        paths = [[context.folder] if context.folder else [], packages]
        call = {"code": code, "libs": inputs.libs, "args": context.args, "action": context.action, "auth": auth}
        try:
            frame = _encode(call | {"file": file, "line": line, "paths": paths})
        except (TypeError, ValueError, RecursionError) as error:
            raise Failure("input", f"the args cannot be passed to the code: {error}") from None
        if len(frame) > MAX_CALL_BYTES:
            message = f"code and args take {len(frame) >> 20} MiB, more than {MAX_CALL_BYTES >> 20} MiB"
            raise Failure("too_large", message)
        ok, content = await POOLS.get().call(name, settings, frame, context.log, context.redact)
        if ok:
            large = len(content) >= LARGE_BYTES  # stored as it is
            result = msgspec.json.decode(content, type=msgspec.Raw).copy() if large else _decode(content)
            return Outcome(result=result, extra=NO_ERROR)
        child_error = _decode_error(content)
    except Failure as failure:
        return replace(failure.outcome, extra=NO_ERROR)
    except msgspec.DecodeError as error:  # the code has written to a descriptor that is not its own
        return failed("python", f"the process sent an invalid response: {error}", extra=NO_ERROR)
    traceback = [text[:MAX_LINE] for text in context.redact(child_error.traceback)]
    details: dict[str, Any] = {"traceback": traceback} if traceback else {}
    if child_error.line is not None:
        own, column = child_error.line - line + 1, child_error.column
        details |= {"line": own, "column": column}
        if inputs.file is not None:
            text = context.redact("".join(code.split("\n")[own - 1 : own]))[:MAX_LINE]
            details["source"] = {"file": file, "line": own, "column": column, "text": text}
    py = {"exception_type": child_error.exception_type, "traceback": traceback}
    return failed(child_error.kind, child_error.message, extra={"py": py}, **details)


def _program(file: str | dict[str, str] | None) -> tuple[str, int, str]:
    """The name of the file of a program, its first line, and its text."""
    if not isinstance(file, dict) or file.keys() != {"path", "text"}:
        advice = "`noetl run` and `noetl register` put it there; with the API, send `file: {path: ..., text: ...}`"
        raise Failure("input", f"`file`: the text of {file!r} is not part of the playbook; {advice}")
    return file["path"], 1, file["text"]


async def _packages(requirements: list[str], context: Context) -> list[str]:
    from noetl.tools.python_child.environment import packages_of

    return [await packages_of(requirements, context.folder, lambda line: context.log("stderr", line))]


def _lane(context: Context, auth: dict[str, Any] | None, packages: list[str]) -> tuple[str, dict[str, Any]]:
    """The lane of a call and the settings of its children: executions, sets of credentials and sets of packages share
    no child."""
    if auth is None and "sandbox" not in context.spec and not packages:
        return context.execution, DEFAULT_SETTINGS
    from noetl.tools.python_child.pool import interpreter

    box, working_folder = sandbox_of(context.spec), os.getcwd()
    # The working folder of the worker may contain anything.
    importable = [path for path in sys.path if path and os.path.realpath(path) != working_folder]
    argv, folders = interpreter()
    settings = {
        "memory_bytes": box.memory_bytes or MEMORY_BYTES,
        "processes": box.processes,
        "landlock": landlock(box, (), read=[*importable, *packages]),
        "exec": confined_python(box, argv, [*folders, *packages]),
    }
    key = sha256(msgspec.json.encode([context.execution, auth, settings, packages], order="deterministic")).hexdigest()
    return f"{context.execution}/{key}", settings


async def close() -> None:
    from noetl.tools.python_child.pool import POOLS

    POOLS.close()
