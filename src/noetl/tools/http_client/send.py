"""Sends a request and follows its redirects."""

from __future__ import annotations

import asyncio
import re
import ssl
from itertools import count
from typing import NamedTuple

from httpx2 import URL, AsyncClient, ConnectError, ConnectTimeout, Cookies, Request, Response

from noetl.tools.http_client.credential import HttpAuth
from noetl.tools.http_client.network import causes, check_request, is_forbidden_address
from noetl.tools.http_client.redaction import Redaction
from noetl.tools.http_client.request import has_port
from noetl.tools.http_client.response import DISCARD_BYTES, read

MAX_REDIRECTS = 20
MAX_BACKOFF_SECONDS = 2.0
CROSSES_HOSTS = re.compile(
    r"accept(-encoding|-language)?|cache-control|connection|content-(length|type)|host|idempotency-key|if-[a-z-]+"
    r"|range|transfer-encoding|user-agent"
)
"""Headers that follow a redirect to another host. Any other may be a credential: an API key has no fixed name."""


class RedirectError(Exception):
    """A redirect that is not followed."""

    def __init__(self, message: str, response: Response) -> None:
        super().__init__(message)
        self.response = response


class Sender(NamedTuple):
    """Sends the requests of one call. Without `cookies` it follows no redirect."""

    client: AsyncClient
    credential: HttpAuth
    redaction: Redaction
    cookies: Cookies | None
    retries: int

    async def run(self, request: Request) -> Response:
        """The last response, whose body is not read yet."""
        for hops in count():
            response = await self._send(request)
            following = response.next_request
            if self.cookies is None or following is None:
                return response
            try:
                if hops == MAX_REDIRECTS:
                    raise RedirectError(f"redirected more than {MAX_REDIRECTS} times", response)
                self._check(response, following.url)
                await read(response, DISCARD_BYTES)  # the connection is reused when the body has been read
            finally:
                await response.aclose()
            request = self._redirected(response, following, self.cookies)
        raise AssertionError("unreachable")

    async def _send(self, request: Request) -> Response:
        """Send one request; retry if it did not reach a server."""
        check_request(request)
        for attempt in range(self.retries):
            try:
                return await self.client.send(request, stream=True)
            except (ConnectError, ConnectTimeout) as error:
                if tls_failure(error) is not None or is_forbidden_address(error):
                    raise
            await asyncio.sleep(min(0.1 * 2**attempt, MAX_BACKOFF_SECONDS))
        return await self.client.send(request, stream=True)

    def _check(self, response: Response, url: URL) -> None:
        if url.scheme not in ("http", "https") or not has_port(url):
            raise RedirectError("redirected to a URL that is not http", response)
        if not _same_host(response.request.url, url) and self.redaction.reveals_secret(str(url)):
            raise RedirectError("redirected to another host with the credential in the URL", response)

    def _redirected(self, response: Response, request: Request, cookies: Cookies) -> Request:
        """The next request, without headers that must not leave the host. Cookies keep to their own rules."""
        sent = response.request
        same_host = _same_host(sent.url, request.url)
        if not same_host:
            for name in [name for name in request.headers if not CROSSES_HOSTS.fullmatch(name)]:
                del request.headers[name]
        elif missing := {k: v for k, v in self.credential.params.items() if k not in request.url.params}:
            request.url = request.url.copy_merge_params(missing)
        cookies.extract_cookies(response)
        cookies.set_cookie_header(request)
        if same_host and "cookie" in sent.headers:
            headers = (message.headers.get("cookie", "") for message in (sent, request))
            pairs = [pair.strip() for header in headers for pair in header.split(";")]
            request.headers["Cookie"] = "; ".join({pair.partition("=")[0]: pair for pair in pairs if pair}.values())
        return request


def _same_host(here: URL, there: URL) -> bool:
    """Whether two URLs have the same origin, or the second is its upgrade to TLS."""
    old, new = here.origin, there.origin
    upgrade = (old.scheme, old.port, new.scheme, new.port) == ("http", 80, "https", 443)
    return old == new or (upgrade and old.host == new.host)


def tls_failure(error: BaseException) -> ssl.SSLError | None:
    return next((cause for cause in causes(error) if isinstance(cause, ssl.SSLError)), None)
