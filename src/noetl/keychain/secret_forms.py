"""The forms of a secret in a text, with patterns that find them.

One pattern for each secret matches every encoding of each of its characters; another matches its base64 at each of the
three positions in a group of three bytes.

**Time.** Patterns are slow, and nearly every text contains no secret. So each pattern has anchors: the longest run of
letters and digits of the secret, which no encoding changes, and halves of its base64. `bytes.find` searches for the
anchors, and a pattern is tried only near a match. No part of a pattern can match in many ways, so the time is linear.
"""

from __future__ import annotations

import re
from base64 import b64encode
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from json import dumps
from urllib.parse import quote, quote_plus

MIN_REDACTED = 6  # shorter secrets are part of too many other words
STRETCH = 1 << 16  # bytes that one pattern search covers: it holds the GIL, so no other thread runs meanwhile
LEVELS = 8  # maximum backslashes before an escaped character: 1 in JSON, 3 in JSON inside JSON, 7 one level deeper
MAX_ENCODED_BYTES = (
    7 * LEVELS + 5
)  # bytes of one byte of a secret in its longest encoding: `\u` after quoted backslashes
LINE = 60  # minimum line length of encoders that break lines
MAX_BREAK_BYTES = 2 * (LEVELS + 1)  # bytes of an end of line in its longest encoding
LONG_CORE = 9  # half of the base64 of a core of this length is long enough to be rare

Span = tuple[int, int]

_ALPHANUMERIC = re.compile(r"[A-Za-z0-9]+")
_PIECE = re.compile(r"(\\*)([A-Za-z0-9]+|[^\\]|\Z)", re.DOTALL)
_QUOTED_BEFORE = re.compile(rb"%(?:25){0,2}5[cC]\Z")
_BREAK = re.compile(rb"(?<=[A-Za-z0-9+/_-])(?:\r?\n|\\{1,8}+(?:r\\{1,8}+)?n)(?=[A-Za-z0-9+/_-])")
_CONTROL = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}


def merged(spans: list[Span]) -> Iterator[Span]:
    """Spans in order, those that overlap or touch as one."""
    spans.sort()
    start, end = spans[0]
    for low, high in spans:
        if low > end:
            yield start, end
            start, end = low, high
        end = max(end, high)
    yield start, end


class SecretForm:
    """A family of encodings of one secret, each of which contains one of the anchors."""

    def __init__(self, secret: str, anchors: Iterable[str]) -> None:
        self.secret = secret
        unique = set(anchors)
        # The empty anchor is in every text: if one encoding has no core, the pattern is always tried.
        self.anchors = (b"",) if "" in unique else tuple(sorted(anchor.encode() for anchor in unique))

    def spans(self, data: bytes, anchor: bytes) -> Iterator[Span]:
        """Where the secret is. Searches no farther from an anchor than the longest encoding, and nowhere twice."""
        for low, high in merged(list(self._regions(data, anchor))):
            yield from self.within(data, low, high)

    def _regions(self, data: bytes, anchor: bytes) -> Iterator[Span]:
        """Anchors that are close together are one region, so that a text full of anchors takes no longer."""
        if not anchor:
            yield 0, len(data)
            return
        reach = self.compiled[1] + len(anchor)
        at = data.find(anchor)
        while at >= 0:
            last = data.rfind(anchor, at, at + 2 * reach)
            yield max(0, at - reach), last + reach
            at = data.find(anchor, last + len(anchor))

    def within(self, data: bytes, low: int, high: int) -> Iterator[Span]:
        pattern, width = self.compiled
        high, stretch = min(high, len(data)), max(STRETCH, width)
        for start in range(low, high, stretch):
            end = start + stretch
            for match in pattern.finditer(data, start, min(high, end + width)):
                if match.start() < end:
                    yield match.span()

    @cached_property
    def compiled(self) -> tuple[re.Pattern[bytes], int]:
        raise NotImplementedError  # a pattern of all encodings, and an upper bound of their length


def notations(secret: str) -> Iterator[str]:
    """Forms in which characters are not escaped one by one: quotes doubled in SQL and CSV, quoting of shells, lower
    case in host names, and other notations of a number."""
    if "'" in secret:
        yield secret.replace("'", "''")
        yield secret.replace("'", "'\\''")
        yield secret.replace("'", "'\"'\"'")
        yield re.sub("'+", lambda run: f"'\"{run[0]}\"'", secret)
    if '"' in secret:
        yield secret.replace('"', '""')
    if secret.lower() != secret:
        yield secret.lower()
    if re.fullmatch("[0-9]{6,300}", secret):
        yield f"{int(secret):,}"
        mantissa = secret.lstrip("0").rstrip("0")
        if len(mantissa) > MIN_REDACTED:
            yield from (f"{mantissa[0]}.{mantissa[1:]}{exponent}" for exponent in "eE")


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _core(text: str) -> str:
    """The longest run of letters and digits: the same in every encoding."""
    return max(_ALPHANUMERIC.findall(text), key=len, default="")


class TextForm(SecretForm):
    """Plain, url-quoted, escaped in JSON at several levels, in the repr of a Python value, or any mixture of them. The
    secret is taken apart into pieces: a run of letters and digits or one other character, with the backslashes before
    it. A run of backslashes in a text belongs to one piece as a whole, which makes it one step however long it is. The
    pattern begins after such a run, else it would be tried at every one of 15 million backslashes; a match is extended
    to the left."""

    def __init__(self, secret: str) -> None:
        super().__init__(secret, [_core(secret)])
        self.pieces = [(len(match[1]), match[2]) for match in _PIECE.finditer(secret) if match[0]]

    @cached_property
    def compiled(self) -> tuple[re.Pattern[bytes], int]:
        first, *others = self.pieces
        pattern = re.compile(_first_piece(*first) + b"".join(_next_piece(*piece) for piece in others))
        widths = (
            (character, 1 if _ALPHANUMERIC.fullmatch(character) else MAX_ENCODED_BYTES) for character in self.secret
        )
        return pattern, sum(len(encoded(character)) * width for character, width in widths)

    def within(self, data: bytes, low: int, high: int) -> Iterator[Span]:
        count, rest = self.pieces[0]
        bare = not rest or (count == 0 and _ALPHANUMERIC.fullmatch(rest) is not None)
        most = 0 if bare else LEVELS * (count + 1)
        for start, end in super().within(data, low, high):
            yield _before_backslashes(data, start, most) if most else start, end


def _before_backslashes(data: bytes, start: int, most: int) -> int:
    """Where the backslashes before `start` begin, plain or quoted; at most `most` of them."""
    at = start
    if data[at - 1 : at] == b"\\":
        while at > 0 and data[at - 1] == 0x5C and start - at < most:
            at -= 1
    elif data[at - 2 : at].lower() == b"5c":
        while most > 0 and (match := _QUOTED_BEFORE.search(data[max(0, at - 7) : at])) is not None:
            at, most = at - len(match[0]), most - 1
    return at


def _first_piece(count: int, rest: str) -> bytes:
    """A pattern for the first piece, from behind its backslashes on. Every alternative begins with a character of its
    own, so the pattern is tried only at these characters."""
    if not rest:
        return _run(count, LEVELS * count)
    if _ALPHANUMERIC.fullmatch(rest):
        return _behind(rest.encode(), count)
    plain, escapes = _plain(rest), _escapes(rest)
    alternatives = [_behind(pattern, count) for pattern in plain] + [_behind(pattern, count + 1) for pattern in escapes]
    return b"(?:%s)" % b"|".join(alternatives)


def _behind(pattern: bytes, count: int) -> bytes:
    """A pattern behind `count` backslashes. Its first byte is a literal, maybe escaped."""
    if count == 0:
        return pattern
    first = pattern[: 2 if pattern[:1] == b"\\" else 1]
    runs = [rb"\\{%d}" % count] + [rb"(?:%%%s5[cC]){%d}" % (b"25" * level, count) for level in range(3)]
    return first + b"(?:%s)" % b"|".join(b"(?<=%s%s)" % (run, first) for run in runs) + pattern[len(first) :]


def _next_piece(count: int, rest: str) -> bytes:
    if not rest or _ALPHANUMERIC.fullmatch(rest):
        return (_run(count, LEVELS * count) if count else b"") + rest.encode()
    plain = b"|".join(_plain(rest))
    both = b"|".join([*_plain(rest), *_escapes(rest)])
    exactly = _run(count, count) if count else b""
    return b"(?:%s(?:%s)|%s(?:%s))" % (_run(count + 1, LEVELS * (count + 1)), both, exactly, plain)


def _run(least: int, most: int) -> bytes:
    """So many backslashes, all that there are. An escaped text may have been quoted as a whole: JSON in a query."""
    return rb"(?:\\{%d,%d}+|(?:%s){%d,%d}+)" % (least, most, _quoted(b"\\"), least, most)


def _plain(character: str) -> list[bytes]:
    raw = encoded(character)
    return [re.escape(raw), _quoted(raw)] + ([rb"\+", _quoted(b"+")] if character == " " else [])


def _escapes(character: str) -> list[bytes]:
    r"""The forms of a character after a backslash: `\u00e9` (two of them beyond the first 65,536 characters),
    `\U0001f600`, `\xc3\xa9`, `\n`, `\xe9`."""
    units, code, between = character.encode("utf-16-be", "surrogatepass").hex(), ord(character), _run(1, LEVELS)
    escapes = [between.join(b"u" + _any_case(units[i : i + 4].encode()) for i in range(0, len(units), 4))]
    if code > 0xFFFF:
        escapes.append(b"U" + _any_case(b"%08x" % code))
    escapes.append(between.join(b"x" + _any_case(b"%02x" % byte) for byte in encoded(character)))
    if character in _CONTROL:
        escapes.append(_CONTROL[character].encode())
    if 0x80 <= code < 0x100:
        escapes.append(b"x" + _any_case(b"%02x" % code))
    return escapes


def _quoted(raw: bytes) -> bytes:
    """`%C3%A9`, in capitals or not, quoted once or up to three times."""
    return b"".join(b"%%(?:25){0,2}%s" % _any_case(b"%02x" % byte) for byte in raw)


def _any_case(digits: bytes) -> bytes:
    pairs = (bytes([digit]) for digit in digits)
    return b"".join(b"[%s%s]" % (digit, digit.upper()) if digit.isalpha() else digit for digit in pairs)


class Base64Form(SecretForm):
    """The secret inside base64, standard or URL-safe, escaped or quoted again, on one line or several. A line may end
    anywhere in the secret, but not twice within `LINE` characters. So at least one of the two halves of that many
    characters is whole, and each half is an anchor."""

    def __init__(self, secret: str) -> None:
        core = _core(secret)
        inner = {core.encode()} if len(core) >= LONG_CORE else {encoded(secret), *_escaped(secret)}
        texts = [text[:LINE] for raw in inner for text in _encodings(raw)]
        halves = [half for text in texts for half in (text[: len(text) // 2], text[len(text) // 2 :])]
        super().__init__(secret, map(_core, halves))

    @cached_property
    def compiled(self) -> tuple[re.Pattern[bytes], int]:
        inner = {encoded(self.secret), *_escaped(self.secret)}
        unique = {text for raw in inner for text in (*_encodings(raw), *_encodings(raw, at_end=True))}
        # The longer ones first: the end of an encoded text has a few bits more than its middle.
        texts = sorted(unique, key=lambda text: (-len(text), text))
        longest = max(len(text) + LEVELS * (text.count("+") + text.count("/")) for text in texts)
        forms = {"+": rb"(?:[+-]|%2[bB])", "/": rb"(?:\\{0,7}/|_|%2[fF])"}
        pattern = b"|".join(b"".join(forms.get(c) or c.encode() for c in text) for text in texts)
        return re.compile(pattern), longest + (longest // LINE + 2) * MAX_BREAK_BYTES

    def within(self, data: bytes, low: int, high: int) -> Iterator[Span]:
        # Ends of lines are removed first. `ends` and `offsets` lead back from the result to the text.
        ends, offsets, total, part = [0], [low], 0, data[low:high]
        for line_end in _BREAK.finditer(part):
            ends.append(line_end.start() - total)
            total += len(line_end[0])
            offsets.append(low + total)
        for match in self.compiled[0].finditer(_BREAK.sub(b"", part) if total else part):
            start, end = match.span()
            yield start + offsets[bisect_right(ends, start) - 1], end + offsets[bisect_left(ends, end, lo=1) - 1]


class HexForm(SecretForm):
    """As the digits of its bytes, in capitals or not."""

    def __init__(self, secret: str) -> None:
        digits = encoded(secret).hex()
        super().__init__(secret, [digits, digits.upper()])

    @cached_property
    def compiled(self) -> tuple[re.Pattern[bytes], int]:
        return re.compile(b"|".join(self.anchors)), len(self.anchors[0])


def _encodings(raw: bytes, *, at_end: bool = False) -> Iterator[str]:
    """The characters of base64 that these bytes decide, for each place in a group of three that they can begin at.
    Inside of a longer text their last bits share a character with what follows; at its end they do not."""
    for shift in range(3):
        text = b64encode(b"\0" * shift + raw).decode().rstrip("=")
        first = (shift * 8 + 5) // 6
        yield text[first:] if at_end else text[first : (shift + len(raw)) * 8 // 6]


def _escaped(secret: str) -> Iterator[bytes]:
    """How the secret is written in documents that people encode whole: JSON and forms."""
    encodable = secret.encode("utf-8", "replace").decode()
    in_json = dumps(secret)[1:-1], dumps(secret, ensure_ascii=False)[1:-1]
    yield from map(encoded, (*in_json, quote(encodable, safe=""), quote_plus(encodable)))
