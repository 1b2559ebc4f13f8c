"""Failures in place of the errors that obstore raises."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from noetl.model.outcome import Failure

MESSAGE_LENGTH = 400
NO_IDENTITY = (
    r"(?i)credential|token request|Missing *(Account|\w*AccessKey)|Invalid Access Key|Account must be specified"
)
METADATA_PATH = r"/latest/(api/token|meta-data)|/computeMetadata/|/metadata/identity"
"""Where the driver looks for the role of the machine."""
URL = r"https?://\S+"


def store_extra(kind: str, status: int | None = None, code: str | None = None) -> dict[str, Any]:
    """The field of the outcome that belongs to the kind: the status and error code of the store."""
    return {kind: {"status": status, "code": code}}


def driver_failure(kind: str, error: Exception, location: str, redact: Callable[[str], str] = str) -> Failure:
    from obstore import exceptions

    text = redact(str(error)).partition("\n\nDebug source")[0]
    match = re.search(r"status code: (\d{3})", text)
    status = int(match[1]) if match else None
    code = match[1] if (match := re.search(r"<Code>(\w+)</Code>", text)) else None
    extra = store_extra(kind, status, code)
    message = f"{location}: {_one_line(text)}"
    generic = isinstance(error, exceptions.GenericError)
    if generic and (re.search(METADATA_PATH, text) or re.search(NO_IDENTITY, re.sub(URL, "", text))):
        return Failure("auth", f"{message}: give `auth`, or sign the worker in", extra=extra)
    if isinstance(error, FileNotFoundError) or status == 404:
        return Failure("not_found", f"{location} does not exist{f' ({code})' if code else ''}", extra=extra)
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError) or status in (401, 403):
        return Failure("auth", f"{message}: is `auth` right, and may it do this?", extra=extra)
    if not generic or "LocalFileSystem" in text:
        return Failure("input", message, extra=extra)
    if status is not None and status < 500 and status not in (408, 429):
        return Failure("input", message, extra=extra)
    return Failure("connect", message, retryable=True, extra=extra)


def _one_line(text: str) -> str:
    """The driver's message without XML, durations, and query strings, which may sign a request."""
    message = re.search(r"<Message>([^<]*)</Message>", text)
    line = re.sub(r" in [\d.]+\w?s - ", " - ", " ".join(text.partition("<?xml")[0].split())).rstrip(" :")
    line = re.sub(r"\?\S*", "?...", line)
    return (f"{line}: {message[1]}" if message else line)[:MESSAGE_LENGTH]
