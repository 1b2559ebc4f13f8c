"""The outcome of a request without a complete response."""

from __future__ import annotations

from errno import ECONNREFUSED

import httpx2

from noetl.model.outcome import Outcome, failed
from noetl.tools.http_client.network import causes, is_forbidden_address
from noetl.tools.http_client.redaction import Redaction
from noetl.tools.http_client.response import no_response
from noetl.tools.http_client.send import tls_failure


def transport_failure(error: httpx2.RequestError, first: httpx2.Request, redaction: Redaction) -> Outcome:
    """The outcome of an error, which names the failed request: the first, or one that it was redirected to."""
    request = error.request if error._request is not None else first
    extra, call = no_response(redaction.url(request.url)), f"{request.method} {redaction.url(request.url)}"
    limits = request.extensions.get("timeout", {})
    match error:
        case httpx2.ConnectTimeout() | httpx2.PoolTimeout():
            message = f"{call}: no connection within {limits.get('connect')} s"
            return failed("timeout", message, retryable=True, extra=extra)
        case httpx2.TimeoutException():
            return failed("timeout", f"{call}: no data for {limits.get('read')} s", retryable=True, extra=extra)
        case httpx2.LocalProtocolError() | httpx2.UnsupportedProtocol():
            return failed("input", f"{call}: the request is not valid HTTP", extra=extra)
        case httpx2.DecodingError():
            return failed("connect", f"{call}: the body can't be decompressed", retryable=True, extra=extra)
    if is_forbidden_address(error):
        return failed("connect", f"{call}: {error}", extra=extra)
    if (tls := tls_failure(error)) is not None:
        hint = ": is it a server without TLS, at http:// rather than https://?"
        hint = hint if "WRONG_VERSION_NUMBER" in str(tls) else ""
        return failed("connect", f"{call}: TLS failed: {tls}{hint}", extra=extra)
    return failed("connect", f"{call}: {_reason(error)}", retryable=True, extra=extra)


def _reason(error: BaseException) -> str:
    """The error of the operating system, which says more than those of the layers above."""
    system_errors = [cause for cause in causes(error) if isinstance(cause, OSError) and cause.errno]
    if system_errors and system_errors[-1].errno == ECONNREFUSED:
        return "the connection was refused: nothing listens there, or a firewall rejects it"
    return str(system_errors[-1] if system_errors else error) or type(error).__name__
