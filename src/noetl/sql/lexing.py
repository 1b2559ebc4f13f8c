"""Tokens of SQL, in as much detail as is needed to find the end of strings, names, comments and statements.

The text may have marks: a control character that occurs nowhere else and represents a template. A mark is a token of
its own, or a part of the string, name or comment that contains it.

The rules are those of PostgreSQL with `standard_conforming_strings` on, which DuckDB shares; Snowflake differs in
backslashes and comments. An unclosed token extends to the end of the text; the server reports it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MARKS = "\x01\x02\x03\x04\x05\x06\x07\x08\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f"
"""Characters that SQL does not contain."""


class SqlDialect(NamedTuple):
    backslashes: bool = False
    """A backslash is an escape in every string, not only in E'...'."""
    nested_comments: bool = True
    slashes: bool = False
    """`//` begins a comment."""


STANDARD = SqlDialect()
SNOWFLAKE = SqlDialect(backslashes=True, nested_comments=False, slashes=True)


class SqlToken(NamedTuple):
    """`kind`: space, comment, string, name (in double quotes), dollar, word, number, mark, symbol."""

    kind: str
    start: int
    end: int
    closed: bool = True

    @property
    def insignificant(self) -> bool:
        return self.kind in ("space", "comment")


def unused_character(text: str) -> str:
    for mark in MARKS:
        if mark not in text:
            return mark
    raise ValueError("the SQL contains every control character")


STRING_PREFIX = r"(?:[EeBbXxNn]|[Uu]&)?"
TOKEN = re.compile(
    rf"""(?P<space>[ \t\n\r\f\v]+)
    | (?P<line>--[^\n\r]*)
    | (?P<block>/\*)
    | (?P<string>{STRING_PREFIX}')
    | (?P<name>(?:[Uu]&)?")
    | (?P<dollar>\$(?:[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*)?\$)
    | (?P<word>[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*)
    | (?P<number>(?:\d|\.\d|\$\d)[\w.]*)
    | (?P<symbol>.)""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
REST_OF_STRING = re.compile(r"(?:[^']|'')*+(?:'|\Z)")
REST_OF_ESCAPED = re.compile(r"(?:[^'\\]|''|\\.)*+(?:'|\Z)", re.DOTALL)
REST_OF_NAME = re.compile(r'(?:[^"]|"")*+(?:"|\Z)')
CONTINUED = r"'[ \t\f\v]*+(?:--[^\n\r]*+)?+[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*+[\n\r])*+'"
"""Two strings with a line end between are one, and the first says how the second is read."""
CONTINUATION = re.compile(CONTINUED)
COMMENT_BOUND = re.compile(r"/\*|\*/")
LINE_END = re.compile(r"[\n\r]")


def tokens(text: str, dialect: SqlDialect = STANDARD, mark: str = "") -> Iterator[SqlToken]:
    start = 0
    while start < len(text):
        match = TOKEN.match(text, start)
        assert match is not None
        kind, end, closed = str(match.lastgroup), match.end(), True
        match kind:
            case "line":
                kind = "comment"
            case "block":
                kind, end = "comment", end_of_comment(text, start, dialect)
                closed = text.endswith("*/", start + 4, end)
            case "string":
                pattern = REST_OF_ESCAPED if dialect.backslashes or text[start] in "Ee" else REST_OF_STRING
                rest = pattern.match(text, end)  # None if the last character is a backslash
                while rest and rest[0].endswith("'") and (more := CONTINUATION.match(text, rest.end() - 1)):
                    rest = pattern.match(text, more.end())
                closed = rest is not None and rest[0].endswith("'")
                end = rest.end() if rest else len(text)
            case "name":
                rest = REST_OF_NAME.match(text, end)
                assert rest is not None
                end, closed = rest.end(), rest[0].endswith('"')
            case "dollar":
                close = text.find(match[0], end)
                end, closed = (close + len(match[0]), True) if close >= 0 else (len(text), False)
            case "symbol" if dialect.slashes and text.startswith("//", start):
                kind, end = "comment", end_of_line(text, start)
        yield SqlToken(kind if text[start] != mark else "mark", start, end, closed)
        start = end


def end_of_line(text: str, start: int) -> int:
    match = LINE_END.search(text, start)
    return match.start() if match else len(text)


def end_of_comment(text: str, start: int, dialect: SqlDialect) -> int:
    depth, position = 1, start + 2
    while depth:
        bound = COMMENT_BOUND.search(text, position)
        if bound is None:
            return len(text)
        depth += 1 if bound[0] == "/*" else -1
        if not dialect.nested_comments:
            depth = min(depth, 1)
        position = bound.end()
    return position


QUOTES = {
    False: re.compile(rf"((?!))|'(')|{CONTINUED}"),
    True: re.compile(rf"(\\.)|'(')|{CONTINUED}", re.DOTALL),
}
"""By whether a backslash begins an escape: an escape, a doubled quote, and where a string continues on a new line."""
ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.)|\Z)", re.DOTALL)
NAMED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def literal_text(written: str, escaped: bool) -> str:
    """The text of a string or a part of one. `escaped`: a backslash starts an escape."""
    written = QUOTES[escaped].sub(lambda match: match[1] or match[2] or "", written)
    if not escaped or "\\" not in written:
        return written
    content = bytearray()  # \303\251 is one character in two bytes
    end = 0
    for match in ESCAPE.finditer(written):
        content += written[end : match.start()].encode(errors="replace")
        end = match.end()
        octal, hexadecimal, short, long, other = match.groups()
        if octal or hexadecimal:
            content.append(int(octal, 8) & 0xFF if octal else int(hexadecimal, 16))
        elif short or long:
            code = int(short or long, 16)
            content += chr(code).encode(errors="replace") if code <= 0x10FFFF else b"?"
        else:
            content += NAMED.get(other, other or "").encode(errors="replace")
    return (content + written[end:].encode(errors="replace")).decode(errors="replace")


OUTSIDE = re.compile(
    r"""(?P<tag>\{[{%#])
    | (?P<line>--|//)
    | (?P<block>/\*)
    | (?P<quote>(?<![\w$])[Ee]'|'|"|(?<![\w$])\$(?:[^\W\d]\w*)?\$)""",
    re.VERBOSE,
)
IN_TAG = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\[({\])}]|%(?=\})", re.DOTALL)
CLOSING = {"{{": "}}", "{%": "%}"}


def hide_comments(source: str, dialect: SqlDialect) -> tuple[str, str]:
    """The source with every `{` in a comment replaced by a character that it does not contain, and that character.
    So comments are never rendered. A quote inside `{{ }}` opens no string, and braces inside a comment no template."""
    mark = unused_character(source)
    copied = position = 0
    pieces: list[str] = []
    state = OUTSIDE
    while (match := state.search(source, position)) is not None:
        start, position = match.span()
        match match.lastgroup:
            case "tag":
                position = _end_of_tag(source, start)
            case "quote":
                escapes = match[0] in ("E'", "e'") or (match[0] == "'" and dialect.backslashes)
                end = (r"\\.|" if escapes else "") + f"(?P<end>{re.escape(match[0].lstrip('Ee'))})"
                state = re.compile(rf"(?P<tag>\{{[{{%#])|{end}", re.DOTALL)
            case "end":
                state = OUTSIDE
            case "line" | "block" if match[0] != "//" or dialect.slashes:
                block = match.lastgroup == "block"
                position = end_of_comment(source, start, dialect) if block else end_of_line(source, start)
                pieces += (source[copied:start], source[start:position].replace("{", mark))
                copied = position
    return "".join(pieces) + source[copied:], mark


def _end_of_tag(source: str, start: int) -> int:
    """The end of the template tag that starts here. The parser reports one that is never closed."""
    opening = source[start : start + 2]
    if opening == "{#":
        end = source.find("#}", start)
        return end + 2 if end >= 0 else len(source)
    closing, depth, position = CLOSING[opening], 0, start + 2
    while (match := IN_TAG.search(source, position)) is not None:
        if depth == 0 and source.startswith(closing, match.start()):
            return match.start() + 2
        depth = max(0, depth + (match[0] in "[({") - (match[0] in "])}"))
        position = match.end()
    return len(source)
