"""Source text to tokens with exact character offsets, for what nearly all templates are made of."""

from __future__ import annotations

import re
from typing import NamedTuple

OPEN = {"(": ")", "[": "]", "{": "}"}


class Lexeme(NamedTuple):
    """A raw token and where it stands in the source."""

    offset: int
    end: int
    type: str
    text: str


# Jinja's lexer takes three times as long, and is used for the rest: statements, comments, whitespace control, floats,
# escapes, other alphabets, and every mistake.
_TOKEN = re.compile(
    r"""(?P<whitespace>\s+)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<operator>//|\*\*|==|!=|>=|<=|[-+/*%~\[\](){}<>=.:|,])
    | (?P<string>'[^'\\]*'|"[^"\\]*")
    | (?P<integer>(?:0|[1-9]\d*)(?![\w.]))""",
    re.ASCII | re.VERBOSE,
)
_RARE = re.compile(r"\{[%#]|\{\{[-+]|[-+]\}\}|\r")


def scan(source: str) -> list[Lexeme] | None:
    """The tokens of text and plain `{{ }}` expressions; None if the source has more than that."""
    if _RARE.search(source):
        return None
    lexemes: list[Lexeme] = []
    position = 0
    while (opening := source.find("{{", position)) >= 0:
        if opening > position:
            lexemes.append(Lexeme(position, opening, "data", source[position:opening]))
        lexemes.append(Lexeme(opening, opening + 2, "variable_begin", "{{"))
        position, depth = opening + 2, 0
        while depth > 0 or not source.startswith("}}", position):
            match = _TOKEN.match(source, position)
            if match is None:
                return None
            text = match[0]
            depth += (text in OPEN) - (text in ")]}")
            if depth < 0:
                return None
            lexemes.append(Lexeme(position, match.end(), str(match.lastgroup), text))
            position = match.end()
        lexemes.append(Lexeme(position, position + 2, "variable_end", "}}"))
        position += 2
    if position < len(source):
        lexemes.append(Lexeme(position, len(source), "data", source[position:]))
    return lexemes
