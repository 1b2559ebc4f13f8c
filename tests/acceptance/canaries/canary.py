"""Secrets that must not be found anywhere, and how they are looked for.

Every canary is made of a random kernel and of characters that some encoding changes. It is looked for whole, in the
forms that it is promised to be hidden in, and by pieces of its kernel: half a secret that a cut has left is found too.
"""

from __future__ import annotations

import re
import secrets
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from json import dumps
from typing import NamedTuple
from urllib.parse import quote, quote_plus

PIECE = 12
"""Characters of a kernel that are as good as the secret: random ones do not turn up by chance."""


class Canary(NamedTuple):
    name: str
    value: str
    kernel: str
    """The random part of the value, where it has one piece that is long enough."""


def _canary(name: str, shape: str, kernel: str | None = None) -> Canary:
    kernel = secrets.token_hex(12) if kernel is None else kernel
    return Canary(name, shape.replace("@", kernel), kernel)


def _dashed() -> str:
    """Random, but with no run of letters and digits that would be the same in every spelling."""
    return "-".join(secrets.token_hex(1) for _ in range(12))


def _pem() -> str:
    lines = [b64encode(secrets.token_bytes(48)).decode() for _ in range(6)]
    return "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"])


def values() -> list[Canary]:
    """Canaries of every nature, for any place that takes a value."""
    digits = "".join(secrets.choice("123456789") for _ in range(16))
    return [
        _canary("long", "@", secrets.token_hex(40)),
        _canary("quotes", """it's "@" and `@`"""),
        _canary("backslashes", r"C:\new\table\@\\end"),
        _canary("percent", "100%@%20%zz%s%(x)s"),
        _canary("ampersand", "a=b&c=@;d?e#f"),
        _canary("spaces", "correct horse @ battery"),
        _canary("umlauts", "Grüße-@-Straße-é"),
        _canary("emoji", "\U0001f511@\U0001f5dd️"),
        _canary("markup", "<a href='@'>&amp;</a>"),
        _canary("template", "{{ 7 * 7 }}{% raw %}@"),
        _canary("dollar", "$@ ${HOME} $(id) +/=@"),
        _canary("control", "tab\t@\x1b[31m\x07end"),
        _canary("json", '{"user": "me", "password": "@", "n": [1, "@"]}'),
        Canary("digits", digits, digits),
        Canary("dashed", _dashed(), ""),
        Canary("pem", _pem(), ""),
        _canary("from_env", "env@/var"),
        _canary("from_file", "file-@"),
    ]


def single(name: str, shape: str, kernel: str | None = None) -> Canary:
    """A canary for one purpose."""
    return _canary(name, shape, kernel)


# -- forms ------------------------------------------------------------------------------------------------------------


def forms(canary: Canary) -> Iterator[bytes]:
    """Everything that may not be found of a canary."""
    pieces = [canary.kernel[at : at + PIECE] for at in range(0, len(canary.kernel) - PIECE + 1, PIECE)]
    lines = [line for line in canary.value.splitlines() if len(line) > 3 * PIECE and "-----" not in line]
    for text in (canary.value, *pieces, *lines):
        yield from _spellings(text)


def _spellings(text: str) -> Iterator[bytes]:
    raw = text.encode()
    written = {text, quote(text, safe=""), quote(text), quote_plus(text)}
    written |= {re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), one) for one in (*written,)}
    written |= {dumps(text)[1:-1], dumps(text, ensure_ascii=False)[1:-1], dumps(dumps(text))[3:-3], repr(text)[1:-1]}
    for one in written:
        yield one.encode()
    for encoded in _base64(raw):
        yield encoded
        yield encoded.translate(bytes.maketrans(b"+/", b"-_"))


def _base64(raw: bytes) -> Iterator[bytes]:
    """What the bytes decide of the base64 of any text that they are in, for each place in a group of three."""
    for shift in range(3):
        encoded = b64encode(b"\0" * shift + raw).rstrip(b"=")
        yield encoded[(shift * 8 + 5) // 6 : (shift + len(raw)) * 8 // 6]


class Search:
    """Looks for all forms of all canaries."""

    def __init__(self, canaries: Iterable[Canary]) -> None:
        self.names: dict[bytes, str] = {}
        every = {form: canary.name for canary in canaries for form in forms(canary)}
        for form in sorted(every, key=len):
            if not any(shorter in form for shorter in self.names):  # else it is found by that one
                self.names[form] = every[form]

    def found(self, content: bytes) -> list[str]:
        """What was found, with its surroundings."""
        return [f"{name}: {_around(content, form)}" for form, name in self.names.items() if form in content]

    def leaks(self, contents: Mapping[str, bytes]) -> dict[str, list[str]]:
        """What was found in each of the contents, at most a few of each."""
        result = {name: self.found(content)[:5] for name, content in contents.items()}
        return {name: places for name, places in result.items() if places}


def _around(content: bytes, form: bytes) -> bytes:
    at = content.index(form)
    return content[max(0, at - 80) : at + len(form) + 40]
