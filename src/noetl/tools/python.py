"""kind: python. A piece of Python in a child process."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from noetl.model.kind import Kind


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
    outcome="py",
)
