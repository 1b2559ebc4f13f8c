"""Hides secrets by value in the results, errors and output of a call.

A secret may reappear in another encoding: url-quoted, escaped in JSON (also JSON inside JSON, or the repr of a Python
string), in base64 as part of something longer (`user:password` of basic auth), in one line or several, or as
hexadecimal digits. `secret_forms.py` has a pattern for each family of encodings.

The strings of a result are joined and searched as one text. The time is linear for hostile texts too: `python -m
bench.redaction` measures it, with 20 secrets in 15 MB.

A value without secrets is returned as the same object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from operator import is_
from typing import Any, TypeVar, cast

import msgspec

from noetl.expression import Sealed
from noetl.json_errors import NOT_JSON
from noetl.keychain.secret_forms import (
    MIN_REDACTED,
    Base64Form,
    HexForm,
    SecretForm,
    TextForm,
    encoded,
    merged,
    notations,
)
from noetl.model.outcome import Error, Outcome, failed

HIDDEN = "***"
MAX_REDACTED = 16_384  # maximum characters of a secret. A longer one would slow down every search.
LARGE = 1 << 18  # values of at least this many bytes are searched in a thread
MIN_LINE_LENGTH = 16  # lines of a secret with several (a key in PEM) are also hidden on their own from this length on
SEPARATOR = b"\xff"  # not in any UTF-8 text, so in no encoding of a secret

Value = TypeVar("Value")
Anchor = tuple[bytes, SecretForm]

_NUMBER = re.compile(r"[0-9.+eE-]+")


class Redactor:
    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.names: set[str] = set()  # handles and keychain entries that were resolved here, or cannot be
        self._anchors: list[Anchor] = []
        self._texts: set[str] = set()
        self._numeric = False
        self.has_secrets = False
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Hide this value from now on, without surrounding white space. ValueError if it is too short or too long."""
        secret = secret.strip()
        if len(secret) < MIN_REDACTED:
            raise ValueError(f"a secret needs at least {MIN_REDACTED} characters to be hidden in texts")
        if len(secret) > MAX_REDACTED:
            raise ValueError(f"a secret must not be longer than {MAX_REDACTED:,} characters")
        lines = [line for line in map(str.strip, secret.splitlines()) if len(line) >= MIN_LINE_LENGTH]
        for text in (secret, *(line for line in lines if not line.startswith("-----"))):
            self._add(text, TextForm, Base64Form, HexForm)
            for notation in notations(text):
                self._add(notation, TextForm)

    def _add(self, text: str, *kinds: Callable[[str], SecretForm]) -> None:
        if text not in self._texts:
            self.has_secrets = True
            self._texts.add(text)
            forms = [kind(text) for kind in kinds]
            # A new list: a thread may be searching with the old one.
            self._anchors = [*self._anchors, *((anchor, form) for form in forms for anchor in form.anchors)]
            self._numeric |= _NUMBER.fullmatch(text) is not None

    def redact(self, value: Value, /) -> Value:
        """The value with `***` for each secret in it, keys of maps included; the same object if there is none."""
        try:
            return _Pass(self._anchors, self._numeric).over(value) if self._anchors else value
        except RecursionError:  # nor could it be stored
            message = "the result is nested too deeply to be searched for secrets"
            hidden: Any = failed("input", message) if isinstance(value, Outcome) else HIDDEN
            return cast(Value, hidden)

    async def redact_apart(self, value: Value, /) -> Value:
        import asyncio

        if not _is_large(value):
            return self.redact(value)
        return await asyncio.to_thread(self.redact, value)


def _is_large(value: Any) -> bool:
    room, todo = LARGE, [value]
    while todo and room > 0:
        part = todo.pop()
        if isinstance(part, str | bytes):
            room -= len(part)
        elif isinstance(part, msgspec.Raw):
            room -= len(bytes(part))
        elif isinstance(part, dict | list | tuple):
            room -= 8 * len(part)
            if room > 0:
                todo += part
                todo += part.values() if isinstance(part, dict) else ()
        elif isinstance(part, Outcome):
            todo += (part.result, part.extra)
    return room <= 0


class _Pass:
    """Hides secrets in one value. All its strings are searched together, as one text."""

    def __init__(self, anchors: list[Anchor], numbers: bool) -> None:
        self.anchors, self.numbers = anchors, numbers
        self.hidden: dict[str, str] = {}  # the strings that contain secrets, and their replacements

    def over(self, value: Any) -> Any:
        if isinstance(value, bytes):
            return self._bytes(value)
        words: set[str] = set()
        others = self._gather(value, words)
        joined = SEPARATOR.join(map(encoded, words))
        text = self._bytes(joined)
        if text is not joined:
            pairs = zip(words, text.split(SEPARATOR), strict=True)
            decoded = ((word, redacted.decode("utf-8", "surrogatepass")) for word, redacted in pairs)
            self.hidden = {word: redacted for word, redacted in decoded if word != redacted}
        return self._rebuilt(value) if others or self.hidden else value

    def _gather(self, value: Any, words: set[str]) -> bool:
        """Collect the strings of a value; True if it must be rebuilt in any case, for bytes or the secrets of a
        template."""
        others = False
        todo = [value]
        while todo:
            part = todo.pop()
            if isinstance(part, str):
                words.add(part)
            elif isinstance(part, dict):
                todo += part.keys()
                todo += part.values()
            elif isinstance(part, list | tuple):
                todo += part
            elif isinstance(part, bytes | msgspec.Raw):
                others = True
            elif isinstance(part, Sealed):
                todo.append(part.content)
                others = True
            elif isinstance(part, Outcome):
                todo += (part.result, part.error, part.extra)
            elif isinstance(part, Error):
                todo += (part.message, part.details)
            elif self.numbers and isinstance(part, int | float):
                words.add(repr(part))
        return others

    def _rebuilt(self, value: Any) -> Any:
        match value:
            case str():
                return self.hidden.get(value, value)
            case dict():
                pairs = [(self._rebuilt(key), self._rebuilt(item)) for key, item in value.items()]
                same = all(key is old and item is value[old] for (key, item), old in zip(pairs, value, strict=True))
                return value if same else dict(pairs)
            case list() | tuple():
                items = [self._rebuilt(item) for item in value]
                return value if all(map(is_, items, value)) else type(value)(items)
            case bytes():
                return self._bytes(value)
            case Sealed():
                return self._rebuilt(value.content)
            case msgspec.Raw():
                return self._json(value)
            case Outcome(result=result, error=error, extra=extra):
                return self._struct(value, result=result, error=error, extra=extra)
            case Error(message=message, details=details):
                return self._struct(value, message=message, details=details)
            case int() | float() if self.numbers and repr(value) in self.hidden:
                return HIDDEN
            case _:
                return value

    def _struct(self, value: Any, **fields: Any) -> Any:
        changed = {name: new for name, old in fields.items() if (new := self._rebuilt(old)) is not old}
        return msgspec.structs.replace(value, **changed) if changed else value

    def _json(self, value: msgspec.Raw) -> msgspec.Raw:
        """Undecoded JSON. If hiding breaks it (a number, half an escape), it is decoded after all."""
        data = bytes(value)
        hidden = self._bytes(data)
        if hidden is data:
            return value
        if not _is_json(hidden):
            content = msgspec.json.decode(data) if _is_json(data) else HIDDEN
            hidden = msgspec.json.encode(_Pass(self.anchors, self.numbers).over(content))
        return msgspec.Raw(hidden)

    def _bytes(self, data: bytes) -> bytes:
        """The same object if there is nothing to hide. Overlapping secrets are hidden once."""
        spans = [span for anchor, form in self.anchors if anchor in data for span in form.spans(data, anchor)]
        if not spans:
            return data
        parts, at = [], 0
        for start, end in merged(spans):
            parts += [data[at:start], HIDDEN.encode()]
            at = end
        return b"".join([*parts, data[at:]])


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except NOT_JSON:
        return False
    return True
