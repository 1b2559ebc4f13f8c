"""Requests to a server that stores or grants secrets. No message contains anything of its response."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote_plus

import msgspec

from noetl.keychain.tokens import TOKENS, AccessToken, lifetime
from noetl.model.outcome import Failure
from noetl.tools.base import RETRYABLE_STATUSES

TIMEOUT_SECONDS = 15.0
MAX_BYTES = 2**20


class SecretResponse(NamedTuple):
    """Status and JSON of a response; `data` is None if it is not JSON, or too large."""

    status: int
    data: Any

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def at(self, *path: str) -> Any:
        value = self.data
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    def word(self, *path: str) -> str:
        """A short word at a path, such as `invalid_client`; empty if there is none."""
        word = self.at(*path)
        return word if isinstance(word, str) and re.fullmatch(r"[A-Za-z0-9_.:# -]{1,80}", word) else ""


class SecretServer(NamedTuple):
    """A server, and what wants a secret from it, for messages."""

    where: str
    name: str

    async def send(self, method: str, url: str, *, own: bool = False, **request: Any) -> SecretResponse:
        """Redirects are not followed: they would send the credential elsewhere.

        Refuses forbidden addresses, unless the address is the worker's `own` and comes from no playbook or credential.
        """
        import httpx2

        from noetl.tools.http_client.network import check_request, guard, is_forbidden_address

        where, name = self
        try:
            async with httpx2.AsyncClient(timeout=TIMEOUT_SECONDS) as client:
                prepared = client.build_request(method, url, **request)
                if not own:
                    guard(client)
                    check_request(prepared)
                response, body = await client.send(prepared, stream=True), b""
                try:
                    async for chunk in response.aiter_bytes():
                        body += chunk
                        if len(body) > MAX_BYTES:
                            break
                finally:
                    await response.aclose()
        except httpx2.TimeoutException:
            message = f"{where}: {name} did not respond within {TIMEOUT_SECONDS:g} s"
            raise Failure("connect", message, retryable=True) from None
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol):
            raise Failure("auth", f"{where}: the address of {name} is invalid") from None
        except httpx2.RequestError as error:
            if is_forbidden_address(error):
                raise Failure("connect", f"{where}: {name}: {error}") from None
            message = f"{where}: cannot reach {name} ({type(error).__name__})"
            raise Failure("connect", message, retryable=True) from None
        try:
            data = msgspec.json.decode(body) if len(body) <= MAX_BYTES else None
        except (msgspec.DecodeError, UnicodeDecodeError):
            data = None
        return SecretResponse(response.status_code, data)

    async def token(
        self,
        method: str,
        url: str,
        *,
        path: tuple[str, ...] = ("access_token",),
        seconds: tuple[str, ...] = ("expires_in",),
        **request: Any,
    ) -> AccessToken:
        """The token in a response, at a path, with its lifetime at another."""
        response = await self.send(method, url, **request)
        token = response.at(*path)
        if not response.ok or not isinstance(token, str) or not token:
            raise self.refusal(response, response.word("error"))
        return AccessToken(token, lifetime(response.at(*seconds)))

    def refusal(self, response: SecretResponse, word: str = "") -> Failure:
        """The failure for a response without a secret; retryable if the server is the cause."""
        answer = "an unexpected response" if response.ok else f"{response.status} {word}".strip()
        retryable = response.status in RETRYABLE_STATUSES
        hint = "; try again later" if retryable else ""
        return Failure("auth", f"{self.where}: {self.name} answered {answer}{hint}", retryable=retryable)


async def access_token(where: str, fields: Mapping[str, Any], taint: Callable[[str, str], None]) -> str:
    """A valid token for the secret of a client, from the cache of the process or new: OAuth 2.0 client credentials
    (RFC 6749, section 4.4)."""
    form = {"grant_type": "client_credentials"}
    form |= {name: fields[name] for name in ("scope", "audience") if fields.get(name)}
    headers = {"Accept": "application/json"}
    if fields.get("client_auth", "header") == "body":
        form |= {"client_id": fields["client_id"], "client_secret": fields["client_secret"]}
    else:  # RFC 6749, section 2.3.1: both are quoted as in a form before they are joined
        client = f"{quote_plus(fields['client_id'])}:{quote_plus(fields['client_secret'])}"
        headers["Authorization"] = f"Basic {b64encode(client.encode()).decode()}"
    server, url = SecretServer(where, "the token endpoint"), fields["token_url"]
    token = await TOKENS.get(dict(fields), lambda: server.token("POST", url, data=form, headers=headers))
    taint(token, where)
    return token
