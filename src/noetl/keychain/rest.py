"""One request to a server that keeps or grants secrets. Nothing of what it answers gets into a message."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from noetl.model.outcome import Failure

SECONDS = 15.0
MAX_BYTES = 2**20
RETRYABLE = frozenset([408, 425, 429, 500, 502, 503, 504])


class Answer(NamedTuple):
    """Status and JSON of an answer; None where it was something else."""

    status: int
    data: Any

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def word(self, *path: str) -> str:
        """A short word at a path in the answer, such as `invalid_client`; empty where there is nothing like that."""
        found = self.at(*path)
        return found if isinstance(found, str) and re.fullmatch(r"[A-Za-z0-9_.:# -]{1,80}", found) else ""

    def at(self, *path: str) -> Any:
        found = self.data
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found


async def ask(where: str, server: str, method: str, url: str, *, own: bool = False, **request: Any) -> Answer:
    """Send a request and read the answer. Redirects are not followed: they would take the credential elsewhere.

    Nothing is sent to a forbidden address, unless it is the worker's `own` and no playbook or credential named it.
    """
    import httpx2

    from noetl.tools.http_client.network import check_request, guard, is_forbidden_address

    try:
        async with httpx2.AsyncClient(timeout=SECONDS) as client:
            prepared = client.build_request(method, url, **request)
            if not own:
                guard(client)
                check_request(prepared)
            response = await client.send(prepared, stream=True)
            try:
                return Answer(response.status_code, _decoded(await _body(response.aiter_bytes())))
            finally:
                await response.aclose()
    except httpx2.TimeoutException:
        raise Failure("connect", f"{where}: {server} did not answer in {SECONDS:g} s", retryable=True) from None
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol):
        raise Failure("auth", f"{where}: the address of {server} is not valid") from None
    except httpx2.RequestError as error:
        if is_forbidden_address(error):
            raise Failure("connect", f"{where}: {server}: {error}") from None
        raise Failure(
            "connect", f"{where}: {server} can't be reached ({type(error).__name__})", retryable=True
        ) from None


async def _body(chunks: Any) -> bytes:
    parts, size = [], 0
    async for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > MAX_BYTES:
            return b""
    return b"".join(parts)


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def refused(where: str, server: str, answer: Answer, word: str = "", kind: str = "auth") -> Failure:
    """The failure that an answer is: worth another try where the server itself is in trouble."""
    said = f"{answer.status} {word}".strip() if not answer.ok else "something that is not what was asked for"
    if answer.status in RETRYABLE:
        return Failure(kind, f"{where}: {server} answered {said}; try again later", retryable=True)
    return Failure(kind, f"{where}: {server} answered {said}")
