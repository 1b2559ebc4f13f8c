"""Where secrets live beside noetl's own store: one file for each provider.

A provider is a function that returns the text of a secret. It signs in with the fields of a credential if there is one,
and otherwise with the environment of the worker, under the names that the provider's own tools use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from noetl.model.outcome import Failure

PROVIDERS = ("env", "file", "google", "aws", "vault")


class ProviderRequest(NamedTuple):
    where: str
    """What wants it, for messages."""
    key: str
    version: int | str | None
    login: Mapping[str, Any]
    """The fields of the credential to sign in with; empty without one."""
    environment: Mapping[str, str]
    taint: Callable[[str, str], None]
    """Adds a value to the redactor."""

    def login_field(self, field: str, *variables: str) -> str | None:
        """A field of the credential; without a credential, the first of these variables that is set."""
        if self.login:
            value = self.login.get(field)
            return None if value is None else str(value)
        return next((self.environment[name] for name in variables if self.environment.get(name)), None)

    @property
    def version_suffix(self) -> str:
        """For messages: which version was requested."""
        return "" if self.version is None else f" in version {self.version}"

    def path(self) -> str:
        """The key as part of a URL, without a way out of its folder."""
        from urllib.parse import quote

        key = self.key.strip("/")
        if not key or {"", ".", ".."} & set(key.split("/")):
            raise self.failure("input", f"{self.key!r} is not the path of a secret")
        return quote(key)

    def failure(self, kind: str, message: str) -> Failure:
        return Failure(kind, f"{self.where}: {message}")


async def read(provider: str, request: ProviderRequest) -> str:
    """The text of a secret without surrounding white space. Failure if there is none."""
    if provider not in PROVIDERS:
        raise request.failure("auth", f"unknown provider {provider!r}; the providers are {', '.join(PROVIDERS)}")
    module = import_module(f"noetl.keychain.providers.{provider}")
    text: str = await module.read(request)
    return text.strip()
