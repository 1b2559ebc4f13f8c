"""provider: env. An environment variable of the worker."""

from __future__ import annotations

from noetl.keychain.providers import ProviderRequest

OWN = "NOETL_"
"""The prefix of noetl's own variables, with its master key and tokens, which no playbook may read."""


async def read(request: ProviderRequest) -> str:
    name = request.key
    if name.upper().startswith(OWN):
        raise request.failure("auth", f"{name} belongs to noetl itself; use a variable of another name")
    value = request.environment.get(name)
    if value is None:
        raise request.failure("not_found", f"the worker has no environment variable {name}")
    return value
