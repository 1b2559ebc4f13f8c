"""Sources of secrets other than noetl's own store: `env`, `file`, and one module for each service.

A provider is a function that returns the text of a secret. It signs in with the fields of a credential if there is one,
and otherwise with the environment of the worker, under the names that the provider's own tools use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import quote

from noetl.file_access import FileRefused, open_checked
from noetl.model.outcome import Failure

PROVIDERS = ("env", "file", "google", "aws", "vault")
OWN_VARIABLES = "NOETL_"
"""The prefix of noetl's own variables, with its master key and tokens, which no playbook may read."""
MAX_FILE_BYTES = 2**20


class ProviderRequest(NamedTuple):
    where: str  # the entry or task that needs it, for messages
    key: str
    version: int | str | None
    login: Mapping[str, Any]  # the fields of the credential to sign in with; empty without one
    environment: Mapping[str, str]
    taint: Callable[[str, str], None]  # adds a value to the redactor

    def login_field(self, field: str, *variables: str) -> str | None:
        """A field of the credential; without a credential, the first of these variables that is set."""
        if self.login:
            value = self.login.get(field)
            return None if value is None else str(value)
        return next((self.environment[name] for name in variables if self.environment.get(name)), None)

    @property
    def version_suffix(self) -> str:
        return "" if self.version is None else f" in version {self.version}"

    def path(self) -> str:
        """The key as part of a URL, without a way out of its folder."""
        key = self.key.strip("/")
        if not key or {"", ".", ".."} & set(key.split("/")):
            raise self.failure("input", f"{self.key!r} is not the path of a secret")
        return quote(key)

    def failure(self, kind: str, message: str) -> Failure:
        return Failure(kind, f"{self.where}: {message}")


async def read(provider: str, request: ProviderRequest) -> str:
    """The text of a secret without surrounding white space. Failure if there is none."""
    if provider == "env":
        if request.key.upper().startswith(OWN_VARIABLES):
            raise request.failure("auth", f"{request.key} belongs to noetl itself; use a variable of another name")
        if request.key not in request.environment:
            raise request.failure("not_found", f"the worker has no environment variable {request.key}")
        text = request.environment[request.key]
    elif provider == "file":
        text = await asyncio.to_thread(_read_file, request)
    elif provider in PROVIDERS:
        text = await import_module(f"noetl.keychain.providers.{provider}").read(request)
    else:
        raise request.failure("auth", f"unknown provider {provider!r}; the providers are {', '.join(PROVIDERS)}")
    return text.strip()


def _read_file(request: ProviderRequest) -> str:
    """A file on the worker, such as one that an orchestrator mounts; `noetl/file_access.py` has the rules."""
    try:
        with open_checked(request.key, "secret", request.environment) as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileRefused as error:
        raise request.failure("auth", str(error)) from None
    except FileNotFoundError:
        raise request.failure("not_found", f"the worker has no file {request.key}") from None
    except OSError as error:
        raise request.failure("auth", f"cannot read {request.key}: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise request.failure("auth", f"{request.key} is larger than {MAX_FILE_BYTES:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise request.failure("auth", f"{request.key} is not UTF-8 text") from None
