"""kind: script. A script that lies in a file or in a result."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from noetl.model.kind import Kind
from noetl.tools.fields import Cwd, Env, ProcessAuth, Scalar, Stdin


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    path: Annotated[str | None, Meta(description="File of the script on the worker, relative to the playbook")] = None
    ref: Annotated[
        str | dict[str, Any] | None,
        Meta(description="Result that holds the script: its text, or a reference to it"),
    ] = None
    interpreter: Annotated[
        str | list[str] | None,
        Meta(description="Program that runs it, with options as a list; its first line decides if not given"),
    ] = None
    argv: Annotated[list[Scalar], Meta(description="Arguments of the script")] = []
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
