"""The request goes out, and redirects are followed to where they lead."""

from __future__ import annotations

import asyncio
import re
import ssl
from itertools import count

from httpx2 import URL, AsyncClient, ConnectError, ConnectTimeout, Cookies, Request, Response

from noetl.tools.http_client.answer import GLANCE_BYTES, read
from noetl.tools.http_client.credential import Proof
from noetl.tools.http_client.network import causes, check_request, is_refusal
from noetl.tools.http_client.request import has_port
from noetl.tools.http_client.veil import Veil

MAX_REDIRECTS = 20
MAX_BACKOFF_SECONDS = 2.0
CROSSES_HOSTS = re.compile(
    r"accept(-encoding|-language)?|cache-control|connection|content-(length|type)|host|idempotency-key|if-[a-z-]+"
    r"|range|transfer-encoding|user-agent"
)
"""Headers that follow a redirect to another host. Any other may be a credential: an API key has no fixed name."""


class Misled(Exception):
    """The redirects lead nowhere."""

    def __init__(self, message: str, response: Response) -> None:
        super().__init__(message)
        self.response = response


class Exchange:
    """One request and what it is redirected to."""

    def __init__(self, client: AsyncClient, proof: Proof, veil: Veil, *, follow: bool, retries: int) -> None:
        self._client, self._proof, self._veil = client, proof, veil
        self._retries = retries
        self._cookies = Cookies() if follow else None

    async def run(self, request: Request) -> Response:
        """Send the request and follow where it leads; the last response is not read yet."""
        for hops in count():
            response = await self._send(request)
            following = response.next_request
            if self._cookies is None or following is None:
                return response
            try:
                if hops == MAX_REDIRECTS:
                    raise Misled(f"redirected more than {MAX_REDIRECTS} times", response)
                self._check(response, following.url)
                await read(response, GLANCE_BYTES)  # a connection is free again when all has been read from it
            finally:
                await response.aclose()
            request = self._redirected(response, following, self._cookies)
        raise AssertionError("unreachable")

    async def _send(self, request: Request) -> Response:
        """Send one request; one that never reached a server is sent again."""
        check_request(request)
        for attempt in range(self._retries):
            try:
                return await self._client.send(request, stream=True)
            except (ConnectError, ConnectTimeout) as error:
                if tls_failure(error) is not None or is_refusal(error):
                    raise
            await asyncio.sleep(min(0.1 * 2**attempt, MAX_BACKOFF_SECONDS))
        return await self._client.send(request, stream=True)

    def _check(self, response: Response, url: URL) -> None:
        if url.scheme not in ("http", "https") or not has_port(url):
            raise Misled("redirected to what is not an http address", response)
        if not _at_home(response.request.url, url) and self._veil.leaks_into(str(url)):
            raise Misled("redirected to another host with the credential in the address", response)

    def _redirected(self, response: Response, request: Request, cookies: Cookies) -> Request:
        """The next request, without what must not leave the host. Cookies set on the way keep to their own rules."""
        sent = response.request
        home = _at_home(sent.url, request.url)
        if not home:
            for name in [name for name in request.headers if not CROSSES_HOSTS.fullmatch(name)]:
                del request.headers[name]
        elif missing := {name: value for name, value in self._proof.params.items() if name not in request.url.params}:
            request.url = request.url.copy_merge_params(missing)
        cookies.extract_cookies(response)
        cookies.set_cookie_header(request)
        if home and "cookie" in sent.headers:
            pairs = [one.strip() for name in (sent, request) for one in name.headers.get("cookie", "").split(";")]
            request.headers["Cookie"] = "; ".join({one.partition("=")[0]: one for one in pairs if one}.values())
        return request


def _at_home(here: URL, there: URL) -> bool:
    """Whether two addresses are of one host: the same origin, or its step up to TLS."""
    one, other = here.origin, there.origin
    upgrade = (one.scheme, one.port, other.scheme, other.port) == ("http", 80, "https", 443)
    return one == other or (upgrade and one.host == other.host)


def tls_failure(error: BaseException) -> ssl.SSLError | None:
    """The failure of TLS that led to an error."""
    return next((cause for cause in causes(error) if isinstance(cause, ssl.SSLError)), None)
