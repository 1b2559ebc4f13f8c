"""One call of `kind: http` from its inputs to its outcome."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import ssl
from asyncio import AbstractEventLoop
from contextlib import ExitStack, aclosing
from errno import ECONNREFUSED
from http.cookiejar import CookieJar, DefaultCookiePolicy
from itertools import count
from socket import gaierror
from typing import Any
from weakref import WeakKeyDictionary

import httpx2
from httpx2 import URL, AsyncClient, Cookies, Limits, Request, Response
from msgspec.structs import replace

from noetl import __version__
from noetl.model.outcome import Failure, Outcome, failed
from noetl.tools.base import Context
from noetl.tools.http import Inputs, Tls
from noetl.tools.http_client.network import causes, check_request, guard, is_forbidden_address
from noetl.tools.http_client.request import HttpAuth, InputError, build, credential_for, has_port
from noetl.tools.http_client.response import DISCARD_BYTES, Redaction, http_extra, no_response, outcome_of, read

KEEP_ALIVE_SECONDS = 4.0
"""Below the 5 seconds after which many servers close an idle connection, so that no request is sent on a closed one."""
KEEP_ALIVE_CONNECTIONS = 256
MAX_REDIRECTS = 20
CROSSES_HOSTS = re.compile(
    r"accept(-encoding|-language)?|cache-control|connection|content-(length|type)|host|idempotency-key|if-[a-z-]+"
    r"|range|transfer-encoding|user-agent"
)
"""Headers that follow a redirect to another host. Any other may be a credential: an API key has no fixed name."""


async def call(inputs: Inputs, context: Context) -> Outcome:
    with ExitStack() as files:
        try:
            credential = await credential_for(inputs.auth, context)
            client = _client(inputs.tls)
            request = build(client, inputs, credential, context, files)
        except Failure as failure:
            return replace(failure.outcome, extra=no_response(None))
        except UnicodeEncodeError as error:
            return failed("input", f"http: text that cannot be encoded: {error.reason}", extra=no_response(None))
        redaction = Redaction(context.redact, credential.secrets)
        try:
            response = await _send(client, request, credential, redaction, follow_redirects=inputs.follow_redirects)
            async with aclosing(response):
                return await outcome_of(response, redaction, context.now)
        except Failure as failure:
            return failure.outcome
        except httpx2.InvalidURL:  # the client parses `Location` even if it does not follow it
            message = f"{request.method} {redaction.url(request.url)}: redirected to an invalid URL"
            return failed("http_status", message, extra=no_response(redaction.url(request.url)))
        except httpx2.RequestError as error:
            return _transport_failure(error, request, redaction)


def _transport_failure(error: httpx2.RequestError, first: Request, redaction: Redaction) -> Outcome:
    request = error.request if error._request is not None else first
    limits = request.extensions.get("timeout", {})
    kind, retryable = "connect", True
    tls = next((cause for cause in causes(error) if isinstance(cause, ssl.SSLError)), None)
    match error:
        case httpx2.ConnectTimeout() | httpx2.PoolTimeout():
            kind, reason = "timeout", f"no connection within {limits.get('connect')} s"
        case httpx2.TimeoutException():
            kind, reason = "timeout", f"no data for {limits.get('read')} s"
        case httpx2.LocalProtocolError() | httpx2.UnsupportedProtocol():
            kind, reason, retryable = "input", "the request is not valid HTTP", False
        case httpx2.DecodingError():
            reason = "the body cannot be decompressed"
        case _ if is_forbidden_address(error):
            reason, retryable = str(error), False
        case _ if tls is not None:
            hint = ": is it a server without TLS, at http:// rather than https://?"
            reason, retryable = f"TLS failed: {tls}{hint if 'WRONG_VERSION_NUMBER' in str(tls) else ''}", False
        case _:  # the error of the operating system is more specific than those of the layers above
            system = [cause for cause in causes(error) if isinstance(cause, OSError) and cause.errno]
            reason = str(system[-1] if system else error) or type(error).__name__
            if system and system[-1].errno == ECONNREFUSED:
                reason = "the connection was refused: nothing listens there, or a firewall rejects it"
            elif system and isinstance(system[-1], gaierror):
                reason = f"cannot resolve host name {request.url.host!r}: check its spelling, and the DNS of the worker"
    url = redaction.url(request.url)
    return failed(kind, f"{request.method} {url}: {reason}", retryable=retryable, extra=no_response(url))


async def _send(
    client: AsyncClient, request: Request, credential: HttpAuth, redaction: Redaction, *, follow_redirects: bool
) -> Response:
    """The last response, whose body is not read yet; Failure if a redirect cannot be followed."""
    cookies, first = Cookies(), request
    for hops in count():
        check_request(request)
        response = await client.send(request, stream=True)
        following = response.next_request
        if not follow_redirects or following is None:
            return response
        url, same_host = following.url, _same_host(request.url, following.url)
        problem = None
        if hops == MAX_REDIRECTS:
            problem = f"more than {MAX_REDIRECTS} times"
        elif url.scheme not in ("http", "https") or not has_port(url):
            problem = "to a URL that is not http"
        elif not same_host and redaction.reveals_secret(str(url)):
            problem = "to another host with the credential in the URL"
        async with aclosing(response):
            if problem is not None:
                message = f"{first.method} {redaction.url(first.url)}: redirected {problem}"
                extra = http_extra(response, redaction)
                raise Failure("http_status", message, extra=extra, status=response.status_code)
            await read(response, DISCARD_BYTES)  # the connection is reused when the body has been read
        if not same_host:
            for name in [name for name in following.headers if not CROSSES_HOSTS.fullmatch(name)]:
                del following.headers[name]
        elif missing := {name: text for name, text in credential.params.items() if name not in url.params}:
            following.url = url.copy_merge_params(missing)
        cookies.extract_cookies(response)
        cookies.set_cookie_header(following)
        if same_host and "cookie" in request.headers:
            headers = (message.headers.get("cookie", "") for message in (request, following))
            pairs = [pair.strip() for header in headers for pair in header.split(";")]
            following.headers["Cookie"] = "; ".join({pair.partition("=")[0]: pair for pair in pairs if pair}.values())
        request = following
    raise AssertionError("unreachable")


def _same_host(first: URL, second: URL) -> bool:
    old, new = first.origin, second.origin
    upgrade = (old.scheme, old.port, new.scheme, new.port) == ("http", 80, "https", 443)
    return old == new or (upgrade and old.host == new.host)


_clients: WeakKeyDictionary[AbstractEventLoop, dict[Any, AsyncClient]] = WeakKeyDictionary()


def _client(tls: Tls | None) -> AsyncClient:
    """The client of this event loop for these options, or InputError. A renewed certificate takes effect at once."""
    identity: list[Any] = []
    if tls is not None:
        identity.append(tls.verify)
        for file in (tls.ca, tls.cert, tls.key):
            try:
                identity.append(None if file is None else (file, os.stat(file).st_mtime_ns))
            except (OSError, ValueError):
                raise InputError(f"`tls`: this worker has no file {file!r}", "not_found") from None
    clients, key = _clients.setdefault(asyncio.get_running_loop(), {}), tuple(identity)
    if key not in clients:
        clients[key] = _new_client(tls or Tls())
    return clients[key]


def _new_client(tls: Tls) -> AsyncClient:
    for name in ("httpx2", "httpcore2"):  # both log URLs and headers, and with them secrets
        logging.getLogger(name).setLevel(logging.WARNING)
    if tls.key is not None and tls.cert is None:
        raise InputError("`tls.key` needs `tls.cert`")
    try:
        if tls.verify and tls.ca is not None:
            context = ssl.create_default_context(cafile=tls.ca)
        else:
            context = httpx2.create_ssl_context(verify=tls.verify)
        if tls.cert is not None:
            context.load_cert_chain(tls.cert, tls.key, password="")  # without one OpenSSL would ask on the terminal
    except OSError as error:
        raise InputError(f"`tls`: the files cannot be used: {error}") from None
    # The slots of the worker limit how many requests run at once.
    limits = Limits(max_keepalive_connections=KEEP_ALIVE_CONNECTIONS, keepalive_expiry=KEEP_ALIVE_SECONDS)
    headers = {"User-Agent": f"noetl/{__version__}", "Accept-Encoding": "gzip, deflate"}
    cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))  # stores none: unrelated executions share the client
    return guard(AsyncClient(verify=context, limits=limits, headers=headers, cookies=cookies, timeout=None))


async def close_clients() -> None:
    for client in _clients.pop(asyncio.get_running_loop(), {}).values():
        await client.aclose()
