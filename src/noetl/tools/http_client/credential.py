"""A credential as a request carries it: in a header, or in a query parameter."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from noetl.model.outcome import Failure
from noetl.tools.base import Context

ACCEPTED = "a bearer token {token}, {username, password}, or an API key {value, header} or {value, query}"


class HttpAuth(NamedTuple):
    """The headers and query parameters of a credential, and the secrets in them."""

    headers: dict[str, str] = {}
    params: dict[str, str] = {}
    secrets: tuple[str, ...] = ()


async def credential_for(auth: str | dict[str, Any] | None, context: Context) -> HttpAuth:
    """The credential that the `auth` input names; Failure of kind `auth` if http can't use it."""
    if not auth:
        return HttpAuth()
    fields = await context.credential(auth)
    of_fields = (form for name, form in _BY_FIELD.items() if name in fields)
    form = _BY_KIND.get(fields.get("kind") or "") or next(of_fields, None)
    if form is None:
        kind = f" of kind {fields['kind']}" if fields.get("kind") else ""
        raise Failure("auth", f"http can't sign in with the fields of this credential{kind}: it accepts {ACCEPTED}")
    return form(fields)


def _bearer(fields: Mapping[str, Any]) -> HttpAuth:
    token = _text(fields, "token" if "token" in fields else "access_token").strip()
    return HttpAuth({"Authorization": f"Bearer {token}"}, secrets=(token,))


def _basic(fields: Mapping[str, Any]) -> HttpAuth:
    username, password = _text(fields, "username"), _text(fields, "password")
    if ":" in username:
        raise Failure("auth", "http: a `username` for basic authentication can't contain a colon")
    packed = b64encode(f"{username}:{password}".encode()).decode()
    return HttpAuth({"Authorization": f"Basic {packed}"}, secrets=(password, packed))


def _api_key(fields: Mapping[str, Any]) -> HttpAuth:
    value = _text(fields, "value").strip()
    match fields:
        case {"header": str(header)}:
            return HttpAuth({header: value}, secrets=(value,))
        case {"query": str(query)}:
            return HttpAuth(params={query: value}, secrets=(value,))
    raise Failure("auth", "http: an API key needs `header` or `query`, the name to send it under")


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Failure("auth", f"http: the credential needs `{name}` as text; it has {', '.join(sorted(fields))}")
    return str(value)


_BY_KIND = {"bearer": _bearer, "oauth2_client_credentials": _bearer, "basic": _basic, "api_key": _api_key}
_BY_FIELD = {"token": _bearer, "access_token": _bearer, "username": _basic, "value": _api_key}
"""For credentials of other kinds."""
