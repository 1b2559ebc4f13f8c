"""Finds SQL comments before the template is parsed, so that their content is never rendered.

A quote inside `{{ }}` opens no SQL string, and braces inside a comment open no template. So the source is scanned once
for the tags of the template and the quotes of the SQL.
"""

from __future__ import annotations

import re

from noetl.sql.lexing import Dialect, end_of_comment, end_of_line, unused_character

OUTSIDE = re.compile(
    r"""(?P<tag>\{[{%#])
    | (?P<line>--|//)
    | (?P<block>/\*)
    | (?P<quote>(?<![\w$])[Ee]'|'|"|(?<![\w$])\$(?:[^\W\d]\w*)?\$)""",
    re.VERBOSE,
)
INSIDE = {
    "'": re.compile(r"(?P<tag>\{[{%#])|(?P<end>')"),
    "e'": re.compile(r"(?P<tag>\{[{%#])|\\.|(?P<end>')", re.DOTALL),
    '"': re.compile(r"(?P<tag>\{[{%#])|(?P<end>\")"),
}
IN_TAG = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\[({\])}]|%(?=\})", re.DOTALL)
CLOSING = {"{{": "}}", "{%": "%}"}


def hide_comments(source: str, dialect: Dialect) -> tuple[str, str]:
    """The source with every `{` in a comment replaced by a character that it does not contain, and that character."""
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
                state = _inside(match[0], dialect)
            case "end":
                state = OUTSIDE
            case "line" | "block" if match[0] != "//" or dialect.slashes:
                block = match.lastgroup == "block"
                position = end_of_comment(source, start, dialect) if block else end_of_line(source, start)
                pieces += (source[copied:start], source[start:position].replace("{", mark))
                copied = position
    return "".join(pieces) + source[copied:], mark


def _inside(quote: str, dialect: Dialect) -> re.Pattern[str]:
    """The pattern of what matters inside a string or name that this quote opens."""
    if quote == "'" and dialect.backslashes:
        quote = "e'"
    return INSIDE.get(quote.lower()) or re.compile(rf"(?P<tag>\{{[{{%#])|(?P<end>{re.escape(quote)})")


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
