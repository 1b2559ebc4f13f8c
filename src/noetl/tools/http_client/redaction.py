"""Hides credentials and query strings in messages."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from json import dumps
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from httpx2 import URL, Request

from noetl.tools.base import Redact

MIN_SECRET_LENGTH = 6
MAX_PATH = 500
HIDDEN = "***"
SECRET_NAME = re.compile(r"(?i)auth|cookie|token|secret|api.?key|passw|credential|session|signature")


class Redaction:
    """Hides the secrets of one call: those of its credential, and others by the names of their headers."""

    def __init__(self, redact: Redact, secrets: Iterable[str] = ()) -> None:
        self._redact, self._secrets = redact, tuple(secrets)

    def redact(self, text: str, request: Request) -> str:
        """The text without the secrets of the request. Redact before truncating: half a secret is not recognised."""
        text = self._redact(text)
        secrets = {secret for secret in (*self._secrets, *_secrets_of(request)) if len(secret) >= MIN_SECRET_LENGTH}
        encodings = [(secret, dumps(secret)[1:-1], quote(secret, safe=""), quote_plus(secret)) for secret in secrets]
        for encoded in sorted(chain.from_iterable(encodings), key=len, reverse=True):
            text = text.replace(encoded, HIDDEN)
        return text

    def url(self, url: URL) -> str:
        """The URL without user, password and query string."""
        path, mark, _ = self._redact(url.raw_path.decode("ascii")).partition("?")
        return f"{url.scheme}://{self._redact(url.netloc.decode('ascii'))}{path[:MAX_PATH]}{'?...' * bool(mark)}"

    def reveals_secret(self, url: str) -> bool:
        """Whether a URL contains a secret of the call, in any encoding."""
        decoded = {url, unquote(url), unquote_plus(url)} if url else ()
        return any(self._redact(text) != text or any(secret in text for secret in self._secrets) for text in decoded)


def _secrets_of(request: Request) -> list[str]:
    """The secrets of a request by the names of its parameters and headers."""
    secrets = [request.url.password]
    secrets += [value for name, value in request.url.params.multi_items() if SECRET_NAME.search(name)]
    for name, value in request.headers.items():
        if SECRET_NAME.search(name):
            scheme, _, token = value.partition(" ")
            secrets += [value, token, *(pair.partition("=")[2].strip() for pair in value.split(";"))]
            if scheme.lower() == "basic":
                with suppress(ValueError):
                    secrets.append(b64decode(token).decode().partition(":")[2])
    return secrets
