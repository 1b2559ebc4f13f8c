"""kind: python. A piece of Python in a child process.

The args are variables of the code and `result` is its answer at the end. Code that sets none but defines `main` has it
called with those args that it accepts, and `async def main` is awaited. `sys.exit()` ends the code early, with an error
unless it is given nothing or 0. What a result may hold, and what becomes of dates, decimals and the like, is in
`python_child/inside/plain.py`; how the processes live and die in `python_child`.

A child is kept for further calls of the same execution with the same credentials and the same sandbox. Each call has
a fresh namespace, environment and folder, but imported modules stay as they are. Of the worker's environment it has
what a `shell` has (`PATH`, `HOME`, `LANG` and the like), `TMPDIR`, and what Python needs to start. A child may have 2
GiB of memory and 512 processes below it, or what `spec.sandbox` says: more memory is a MemoryError, and more processes
are the end of all of them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from noetl.model.kind import Kind
from noetl.model.outcome import Failure, Outcome, failed
from noetl.tools.base import Context
from noetl.tools.sandbox import PROCESSES

if TYPE_CHECKING:
    from noetl.tools.python_child.child import Answer

CALL_BYTES = 200 * 1024 * 1024
MEMORY_BYTES = 2 * 1024**3
"""Memory a child may have beyond what it starts with, if the sandbox says nothing."""
PLAIN_LIFE = {"memory_bytes": MEMORY_BYTES, "processes": PROCESSES}
LARGE_BYTES = 1024 * 1024


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    code: Annotated[
        str,
        Meta(description="Program: `args` are its variables, `result` is its answer, or `def main(**args)`"),
    ]
    libs: Annotated[
        list[str] | dict[str, str],
        Meta(description="Modules to import first: a list, or a map of the name to use to the module"),
    ] = {}
    auth: Annotated[
        str | dict[str, Any] | None,
        Meta(description="Keychain entry, or a map of several, that the code finds in `auth`"),
    ] = None


KIND = Kind(
    name="python",
    summary="Runs Python code in a process of its own",
    inputs=Inputs,
    timeout=3600,
    verbatim=("code",),
    takes_args=True,
    outcome="py",
)


class Order(Struct):
    """A call as the child reads it."""

    task: str
    code: str
    libs: list[str] | dict[str, str]
    args: dict[str, Any]
    action: str
    auth: dict[str, Any] | None
    file: str
    line: int


class Fault(Struct):
    """Why a call failed, in the child's words."""

    kind: str
    message: str
    exception_type: str | None
    traceback: list[str]


def _foreign(value: Any) -> Any:
    """How code sees a value that is not plain data: a reference to a stored result is a map that describes it."""
    if hasattr(value, "as_data"):
        return value.as_data()
    raise TypeError(f"a value of type {type(value).__name__} can't be handed to code")


_encode = msgspec.json.Encoder(enc_hook=_foreign).encode
_decode = msgspec.json.Decoder().decode
_decode_fault = msgspec.json.Decoder(Fault).decode


async def run(inputs: Inputs, context: Context) -> Outcome:
    """Run the code in a child of this execution. Cancelling kills that child and every process below it."""
    import asyncio

    from noetl.tools.python_child.child import ChildDied
    from noetl.tools.python_child.pool import pool_of

    try:
        auth = await _credentials(inputs.auth, context) if inputs.auth else None
        name, life = _lane(context, auth)
    except Failure as failure:
        return Outcome("error", error=failure.outcome.error, extra={"py": {"exception_type": None}})
    try:
        file, line = context.source or (f"<task {context.task}>", 1)
        frame = _encode(Order(context.task, inputs.code, inputs.libs, context.args, context.action, auth, file, line))
    except (TypeError, ValueError, RecursionError) as error:
        return _failed("input", f"the args can't be handed to the code: {error}")
    if len(frame) > CALL_BYTES:
        return _failed("too_large", f"code and args take {len(frame) >> 20} MiB, more than {CALL_BYTES >> 20} MiB")
    try:
        answer = await pool_of(asyncio.get_running_loop()).call(name, life, frame, context.log, context.redact)
    except ChildDied as died:
        return _failed("python", str(died))
    return _outcome(answer)


async def _credentials(auth: str | dict[str, Any], context: Context) -> dict[str, Any]:
    """The fields of an entry; of a map of several entries, a map of their fields."""
    if isinstance(auth, str):
        return await context.credential(auth)
    return {name: await context.credential(entry) for name, entry in auth.items()}


def _lane(context: Context, auth: dict[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """Whose children may run the call, and how they live.

    Code of one execution must not find what another has left behind, nor code with one set of credentials that of
    another set.
    """
    if auth is None and "sandbox" not in context.spec:
        return context.execution, PLAIN_LIFE
    from hashlib import sha256

    from noetl.tools.python_child.pool import interpreter
    from noetl.tools.sandbox import confined_python, landlock, sandbox_of

    box = sandbox_of(context.spec)
    life = {
        "memory_bytes": box.memory_bytes or MEMORY_BYTES,
        "processes": box.processes,
        "landlock": landlock(box, (), read=_importable()),
        "exec": confined_python(box, *interpreter()),
    }
    key = sha256(msgspec.json.encode([context.execution, auth, life], order="deterministic")).hexdigest()
    return f"{context.execution}/{key}", life


def _importable() -> list[str]:
    """Where modules are, but for the folder that the worker happens to run in: it may hold anything."""
    import os

    here = os.getcwd()
    return [path for path in sys.path if path and os.path.realpath(path) != here]


async def warm() -> None:
    """Start the process that forks the children ahead of the first call, which then waits 30 ms less."""
    import asyncio

    from noetl.tools.python_child.pool import pool_of

    pool_of(asyncio.get_running_loop()).launch()


async def close() -> None:
    """End all child processes of this event loop."""
    import asyncio

    from noetl.tools.python_child.pool import close_pool

    close_pool(asyncio.get_running_loop())


def _outcome(answer: Answer) -> Outcome:
    try:
        if answer.well:
            return Outcome(result=_result(answer.content), extra={"py": {"exception_type": None}})
        fault = _decode_fault(answer.content)
    except msgspec.DecodeError as error:  # the code has written into a descriptor that is not its own
        return _failed("python", f"the answer of the process makes no sense: {error}")
    py = {"exception_type": fault.exception_type, "traceback": fault.traceback}
    return failed(fault.kind, fault.message, extra={"py": py})


def _result(content: bytes | bytearray) -> Any:
    """The value, or for a large one its JSON: it is going to be stored as it is, and to build it would take memory."""
    if len(content) < LARGE_BYTES:
        return _decode(content)
    return msgspec.json.decode(content, type=msgspec.Raw).copy()


def _failed(kind: str, message: str) -> Outcome:
    return failed(kind, message, extra={"py": {"exception_type": None}})
