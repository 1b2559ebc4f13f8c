"""Requests to servers that store or grant secrets, and tokens of theirs, cached until shortly before their end.

No message contains anything of a response.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import Callable, Coroutine, Hashable, Mapping
from hashlib import sha256
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote_plus

import msgspec

from noetl.json_errors import NOT_JSON
from noetl.model.outcome import Failure
from noetl.tools.base import RETRYABLE_STATUSES

TIMEOUT_SECONDS = 15.0
MAX_BYTES = 2**20
# A token is not used in its last minute, or in the last tenth of a short lifetime: the request takes time too.
LEEWAY_SECONDS = 60.0
DEFAULT_LIFE_SECONDS = 300.0  # the lifetime of a token whose server does not state it

Result = TypeVar("Result")
Path = tuple[str, ...]  # of keys in the JSON of a response


class SharedTasks(Generic[Result]):
    """Concurrent callers with one key share a task, which is cancelled when no caller waits any more."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[Result]] = {}
        self._callers: dict[asyncio.Task[Result], int] = {}

    async def do(self, name: Hashable, make: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        key = (asyncio.get_running_loop(), name)
        task = self._running.get(key)
        if task is None or task.done():
            task = self._running[key] = asyncio.create_task(make())
        self._callers[task] = self._callers.get(task, 0) + 1
        try:
            return await asyncio.shield(task)
        finally:
            self._callers[task] -= 1
            if not self._callers[task]:
                del self._callers[task]
                task.cancel()  # does nothing to a task that is done
                if self._running.get(key) is task:
                    del self._running[key]


class AccessToken(NamedTuple):
    value: str
    seconds: float = DEFAULT_LIFE_SECONDS


class TokenCache:
    """Tokens by everything that they were requested with. Concurrent callers share one request."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self.now = now
        self._tokens: dict[str, tuple[str, float]] = {}
        self._requests: SharedTasks[str] = SharedTasks()

    async def get(self, identity: Any, request: Callable[[], Coroutine[Any, Any, AccessToken]]) -> str:
        """A valid token. `identity` is everything that decides which one, secrets included."""
        key = sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()
        token, until = self._tokens.get(key, ("", 0.0))
        if self.now() < until:
            return token

        async def renew() -> str:
            started = self.now()
            token = await request()
            now = self.now()
            self._tokens = {other: entry for other, entry in self._tokens.items() if now < entry[1]}
            self._tokens[key] = (token.value, started + token.seconds - min(LEEWAY_SECONDS, token.seconds / 10))
            return token.value

        return await self._requests.do(key, renew)


TOKENS = TokenCache()


class SecretResponse(NamedTuple):
    status: int
    data: Any  # None if the response is not JSON, or too large

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
    where: str
    name: str

    async def send(self, method: str, url: str, *, own: bool = False, **request: Any) -> SecretResponse:
        """Redirects are not followed: they would send the credential elsewhere. Refuses forbidden addresses, unless the
        address is the worker's `own`, which comes from no playbook or credential."""
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
        except NOT_JSON:
            data = None
        return SecretResponse(response.status_code, data)

    async def token(
        self, method: str, url: str, *, path: Path = ("access_token",), seconds: Path = ("expires_in",), **request: Any
    ) -> AccessToken:
        response = await self.send(method, url, **request)
        token = response.at(*path)
        if not response.ok or not isinstance(token, str) or not token:
            raise self.refusal(response, response.word("error"))
        try:
            life = float(response.at(*seconds))  # some servers send it as text
        except (TypeError, ValueError):
            life = 0.0
        return AccessToken(token, life if life > 0 else DEFAULT_LIFE_SECONDS)

    def refusal(self, response: SecretResponse, word: str = "") -> Failure:
        """The failure for a response without a secret; retryable if the server is the cause."""
        answer = "an unexpected response" if response.ok else f"{response.status} {word}".strip()
        retryable = response.status in RETRYABLE_STATUSES
        hint = "; try again later" if retryable else ""
        return Failure("auth", f"{self.where}: {self.name} returned {answer}{hint}", retryable=retryable)


async def access_token(where: str, fields: Mapping[str, Any], taint: Callable[[str, str], None]) -> str:
    """A valid token of OAuth 2.0 client credentials (RFC 6749, section 4.4), from the cache of the process or new."""
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
