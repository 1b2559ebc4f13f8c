"""provider: env. An environment variable of the worker."""

from __future__ import annotations

from noetl.keychain.providers import Request

OWN = "NOETL_"
"""Variables of noetl itself, its master key and tokens among them, are nobody's secrets to use."""


async def read(request: Request) -> str:
    name = request.key
    if name.upper().startswith(OWN):
        raise request.failure("auth", f"{name} belongs to noetl itself; use a variable of another name")
    value = request.environment.get(name)
    if value is None:
        raise request.failure("not_found", f"the environment of the worker has no variable {name}")
    return value
