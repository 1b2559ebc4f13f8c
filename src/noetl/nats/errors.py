"""Failures in place of the errors of the NATS driver."""

from __future__ import annotations

from noetl.model.outcome import Failure
from noetl.settings import NatsSettings

WRONG_STREAM = 10060
CONNECT_SECONDS = 5.0
RESPONSE_SECONDS = 10.0
"""How long JetStream may take to respond; how long a responder may take is the task's time limit."""


def addresses(login: NatsSettings) -> str:
    """The servers as text, without the credentials that a URL may contain."""
    return ", ".join(server.partition("://")[2].rpartition("@")[2].rstrip("/") for server in login.servers)


def error_text(error: Exception) -> str:
    return str(getattr(error, "description", None) or error).removeprefix("nats: ") or type(error).__name__


def connect_failure(login: NatsSettings, error: Exception) -> Failure:
    from nats.errors import AuthorizationError, InvalidUserCredentialsError

    text = error_text(error)
    if isinstance(error, AuthorizationError | InvalidUserCredentialsError) or "authorization violation" in text.lower():
        return Failure("auth", f"NATS at {addresses(login)} refuses the login: is the credential right?")
    if isinstance(error, TimeoutError):
        text = f"no response within {CONNECT_SECONDS:g} seconds"
    return Failure("connect", f"no connection to NATS at {addresses(login)}: {text}", retryable=True)


def operation_failure(error: Exception, subject: str) -> Failure:
    """The failure of an operation on a subject, bucket or key, which the message names."""
    from nats import errors
    from nats.js import errors as stream_errors

    code = getattr(error, "err_code", None)
    text = error_text(error)
    retryable = False
    match error:
        case errors.NoRespondersError():
            kind, reason, retryable = "not_found", "no responder is subscribed", True
        case stream_errors.NoStreamResponseError():
            kind, reason = "not_found", "no stream has this subject"
        case stream_errors.BucketNotFoundError():
            kind, reason = "not_found", "the bucket does not exist"
        case stream_errors.ServiceUnavailableError() | stream_errors.ServerError():
            kind, reason, retryable = "connect", f"JetStream is unavailable: {text}", True
        case stream_errors.NotFoundError():
            kind, reason = "not_found", "not found"
        case errors.MaxPayloadError():
            kind, reason = "too_large", "the message is larger than the server allows: use `operation: object_put`"
        case errors.TimeoutError():
            kind, reason, retryable = "timeout", f"no response within {RESPONSE_SECONDS:g} seconds", True
        case stream_errors.APIError() if code == WRONG_STREAM:
            kind, reason = "input", f"the subject belongs to another stream: {text}"
        case stream_errors.Error():
            kind, reason = "input", text
        case _:
            kind, reason, retryable = "connect", text, True
    extra = {"nats": {"code": code, "conflict": False}}
    return Failure(kind, f"{subject}: {reason}", retryable=retryable, extra=extra)
