"""Texts for people, without what must stay secret: what was sent to sign in, and the query of an address."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable
from contextlib import suppress
from json import dumps
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from httpx2 import URL, Request

from noetl.tools.base import Redact

SHORTEST_SECRET = 6
MAX_PATH = 500
HIDDEN = "***"
SECRET_NAME = re.compile(r"(?i)auth|cookie|token|secret|api.?key|passw|credential|session|signature")


class Veil:
    """Hides the secrets of one call. `known` are those of its credential; others are guessed by their names."""

    def __init__(self, redact: Redact, known: Iterable[str] = ()) -> None:
        self._redact, self._known = redact, tuple(known)

    def over(self, text: str, request: Request) -> str:
        """The text without what the request has sent. Done before a text is cut: half a secret is not recognised."""
        text = self._redact(text)
        for secret in _forms([*self._known, *_sent(request)]):
            text = text.replace(secret, HIDDEN)
        return text

    def url(self, url: URL) -> str:
        """An address for people: who signs in and what is asked for is left out, after secrets were hidden."""
        whole = self._redact(url.raw_path.decode("ascii"))
        path, mark, _ = whole.partition("?")
        return f"{url.scheme}://{self._redact(url.netloc.decode('ascii'))}{path[:MAX_PATH]}{'?...' * bool(mark)}"

    def leaks_into(self, address: str) -> bool:
        """Whether an address holds the credential, or another secret of the call, however it is escaped."""
        read = {address, unquote(address), unquote_plus(address)} if address else ()
        return any(self._redact(text) != text or any(one in text for one in self._known) for text in read)


def _sent(request: Request) -> list[str]:
    """What seems to have been sent to prove who we are."""
    found = [request.url.password]
    found += [value for name, value in request.url.params.multi_items() if SECRET_NAME.search(name)]
    for name, value in request.headers.items():
        if SECRET_NAME.search(name):
            scheme, _, token = value.partition(" ")
            found += [value, token, *(pair.partition("=")[2].strip() for pair in value.split(";"))]
            if scheme.lower() == "basic":
                with suppress(ValueError):
                    found.append(b64decode(token).decode().partition(":")[2])
    return found


def _forms(secrets: Iterable[str]) -> list[str]:
    """The secrets in the forms in which a server may repeat them; the longest first."""
    long = {one for one in secrets if len(one) >= SHORTEST_SECRET}
    forms = {form for one in long for form in (one, dumps(one)[1:-1], quote(one, safe=""), quote_plus(one))}
    return sorted(forms, key=len, reverse=True)
