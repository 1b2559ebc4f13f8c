"""The outcome of a request that got no whole answer."""

from __future__ import annotations

from errno import ECONNREFUSED

import httpx2

from noetl.model.outcome import Outcome, failed
from noetl.tools.http_client.answer import no_answer
from noetl.tools.http_client.exchange import tls_failure
from noetl.tools.http_client.network import causes, is_refusal
from noetl.tools.http_client.veil import Veil


def unanswered(error: httpx2.RequestError, first: httpx2.Request, veil: Veil) -> Outcome:
    """What went wrong, with the request that it happened to: the first, or one that it was redirected to."""
    request = error.request if error._request is not None else first
    extra, call = no_answer(veil.url(request.url)), f"{request.method} {veil.url(request.url)}"
    limits = request.extensions.get("timeout", {})
    match error:
        case httpx2.ConnectTimeout() | httpx2.PoolTimeout():
            message = f"{call}: no connection within {limits.get('connect')} s"
            return failed("timeout", message, retryable=True, extra=extra)
        case httpx2.TimeoutException():
            return failed("timeout", f"{call}: nothing came for {limits.get('read')} s", retryable=True, extra=extra)
        case httpx2.LocalProtocolError() | httpx2.UnsupportedProtocol():
            return failed("input", f"{call}: the request is not valid HTTP", extra=extra)
        case httpx2.DecodingError():
            return failed("connect", f"{call}: the body can't be decompressed", retryable=True, extra=extra)
    if is_refusal(error):
        return failed("connect", f"{call}: {error}", extra=extra)
    if (tls := tls_failure(error)) is not None:
        return failed("connect", f"{call}: TLS failed: {tls}{_perhaps(str(tls))}", extra=extra)
    return failed("connect", f"{call}: {_reason(error)}", retryable=True, extra=extra)


def _reason(error: BaseException) -> str:
    """What the system said, which is closer to the matter than what the layers above made of it."""
    spoken = [cause for cause in causes(error) if isinstance(cause, OSError) and cause.errno]
    if spoken and spoken[-1].errno == ECONNREFUSED:
        return "the connection was refused: nothing listens there, or something keeps others out"
    return str(spoken[-1] if spoken else error) or type(error).__name__


def _perhaps(tls: str) -> str:
    return ": is it a server without TLS, at http:// rather than https://?" if "WRONG_VERSION_NUMBER" in tls else ""
