"""Where secrets live beside noetl's own store: one file for each provider.

A provider is a function that gives the text of a secret. It signs in with the fields of a credential where one is
given, and with what the environment of the worker has for that purpose otherwise, under the names that the provider's
own tools use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from noetl.model.outcome import Failure

PROVIDERS = ("env", "file", "google", "aws", "vault")


class Login(NamedTuple):
    """What to sign in with at a provider."""

    fields: Mapping[str, Any]

    def get(self, field: str, environment: Mapping[str, str], *variables: str) -> str | None:
        """A field, or the first of these variables that is set. A credential that is given is taken as a whole."""
        if self.fields:
            found = self.fields.get(field)
            return None if found is None else str(found)
        return next((environment[name] for name in variables if environment.get(name)), None)


class Request(NamedTuple):
    """A secret that is wanted."""

    where: str
    """Who wants it, for messages."""
    key: str
    version: int | str | None
    login: Login
    environment: Mapping[str, str]
    taint: Callable[[str, str], None]
    """Makes a value known to the redactor."""

    def login_field(self, field: str, *variables: str) -> str | None:
        return self.login.get(field, self.environment, *variables)

    def path(self) -> str:
        """The key as part of an address. It leads nowhere but down."""
        from urllib.parse import quote

        key = self.key.strip("/")
        if not key or {"", ".", ".."} & set(key.split("/")):
            raise self.failure("input", f"{self.key!r} is not the path of a secret")
        return quote(key)

    def failure(self, kind: str, message: str, *, retryable: bool = False) -> Failure:
        return Failure(kind, f"{self.where}: {message}", retryable=retryable)


async def read(
    where: str,
    provider: str,
    key: str,
    version: int | str | None,
    login: Login,
    environment: Mapping[str, str],
    taint: Callable[[str, str], None],
) -> str:
    """The text of a secret, with the white space around it taken off. Failure where there is none."""
    if provider not in PROVIDERS:
        raise Failure("auth", f"{where}: there is no provider {provider!r}; there are {', '.join(PROVIDERS)}")
    module = import_module(f"noetl.keychain.providers.{provider}")
    text: str = await module.read(Request(where, key, version, login, environment, taint))
    return text.strip()
