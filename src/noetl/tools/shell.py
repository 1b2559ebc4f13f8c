"""kind: shell. Commands, through a shell or without one."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.model.kind import Kind
from noetl.tools.fields import Cwd, Env, ProcessAuth, Stdin


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    cmds: Annotated[
        str | list[str | list[str]] | None,
        Meta(description="Commands in order: text goes through a shell, a list of words does not"),
    ] = None
    command: Annotated[str | None, Meta(description="One command, through a shell")] = None
    shell: Annotated[str, Meta(description="Program that runs commands given as text")] = "/bin/sh"
    env: Env = {}
    cwd: Cwd = None
    stdin: Stdin = None
    auth: ProcessAuth = None


KIND = Kind(
    name="shell",
    summary="Runs commands; the result is `{exit_code, stdout, stderr}` of the last one",
    inputs=Inputs,
    timeout=3600,
    outcome="shell",
    one_of=(("cmds", "command"),),
)
