"""Source text to tokens with exact character offsets, for what nearly all templates are made of."""

from __future__ import annotations

import re
from typing import NamedTuple

OPEN = {"(": ")", "[": "]", "{": "}"}
CLOSE = frozenset(OPEN.values())


class Lexeme(NamedTuple):
    """A raw token and where it stands in the source."""

    offset: int
    end: int
    type: str
    text: str


# Jinja's lexer takes three times as long, and is used for the rest: statements, comments, whitespace control, floats,
# escapes, other alphabets, and every mistake.
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<name>[A-Za-z_]\w*)
    | (?P<operator>//|\*\*|==|!=|>=|<=|[-+/*%~\[\](){}<>=.:|,])
    | (?P<string>'[^'\\]*'|"[^"\\]*")
    | (?P<integer>(?:0|[1-9]\d*)(?![\w.])))""",
    re.ASCII | re.VERBOSE,
)
_RARE = re.compile(r"\{[%#]|\{\{[-+]|[-+]\}\}|\r")


def scan(source: str) -> list[Lexeme] | None:
    """The tokens of text and plain `{{ }}` expressions, without white space; None if the source has more than that."""
    if _RARE.search(source):
        return None
    lexemes: list[Lexeme] = []
    position = 0
    while (opening := source.find("{{", position)) >= 0:
        if opening > position:
            lexemes.append(Lexeme(position, opening, "data", source[position:opening]))
        lexemes.append(Lexeme(opening, opening + 2, "variable_begin", "{{"))
        end = _scan_expression(source, opening + 2, lexemes)
        if end is None:
            return None
        position = end
    if position < len(source):
        lexemes.append(Lexeme(position, len(source), "data", source[position:]))
    return lexemes


def _scan_expression(source: str, position: int, lexemes: list[Lexeme]) -> int | None:
    """Add the tokens of one expression; returns where it ends, None if it is not a plain one."""
    depth = 0
    while (match := _TOKEN.match(source, position)) is not None:
        kind, position = str(match.lastgroup), match.end()
        text = match[kind]
        if kind == "operator":
            if text in OPEN:
                depth += 1
            elif text in CLOSE:
                if depth == 0:
                    break
                depth -= 1
        lexemes.append(Lexeme(position - len(text), position, kind, text))
    if match is None or not source.startswith("}}", position - 1):
        return None
    lexemes.append(Lexeme(position - 1, position + 1, "variable_end", "}}"))
    return position + 1
