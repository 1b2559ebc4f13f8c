"""The text that an SQL string represents."""

from __future__ import annotations

import re

from noetl.sql.lexing import CONTINUED

QUOTES = {
    False: re.compile(rf"(?P<quote>'')|{CONTINUED}"),
    True: re.compile(rf"(?P<escape>\\.)|(?P<quote>'')|{CONTINUED}", re.DOTALL),
}
"""By whether a backslash begins an escape: a doubled quote, and where a string goes on in the next line."""
ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.)|\Z)", re.DOTALL)
NAMED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def literal_text(written: str, escaped: bool) -> str:
    """The text of a string or a part of one. `escaped`: a backslash starts an escape."""
    written = QUOTES[escaped].sub(_joined, written)
    if not escaped or "\\" not in written:
        return written
    content = bytearray()  # \303\251 is one character in two bytes
    end = 0
    for match in ESCAPE.finditer(written):
        content += written[end : match.start()].encode(errors="replace")
        content += _meant(match)
        end = match.end()
    return (content + written[end:].encode(errors="replace")).decode(errors="replace")


def _joined(match: re.Match[str]) -> str:
    match match.lastgroup:
        case "escape":
            return match[0]
        case "quote":
            return "'"
    return ""


def _meant(match: re.Match[str]) -> bytes:
    octal, hexadecimal, short, long, other = match.groups()
    if octal or hexadecimal:
        return bytes([int(octal, 8) & 0xFF if octal else int(hexadecimal, 16)])
    if short or long:
        code = int(short or long, 16)
        return chr(code).encode(errors="replace") if code <= 0x10FFFF else b"?"
    return NAMED.get(other, other or "").encode(errors="replace")
