"""Rewriting the names in a template's source, and nothing else of it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from noetl.expression.lexer import Lexeme, lex
from noetl.expression.template import parse

_PLAIN_PATH = re.compile(r"[^\W\d]\w*(\.\w+|\[-?\d+\]|\['[^'\\]*'\])*")


def rename(source: str, names: Mapping[str, str]) -> str:
    """The source with free names (or dotted prefixes such as `event.name`) replaced by other expressions.

    The longest prefix wins. Names that the template binds itself, attributes, argument names and strings
    stay. A replacement that is not a plain path is put in parentheses.
    """
    template = parse(source)
    if template.is_constant:
        return source
    words = lex(source)
    places = {lexeme.offset: number for number, lexeme in enumerate(words)}
    wanted = {tuple(name.split(".")): _wrapped(text) for name, text in names.items()}
    edits: dict[int, tuple[int, str]] = {}
    for read in template.reads:
        if edit := _edit(words, places[read.offset], wanted):
            edits[read.offset] = edit
    out, end = [], 0
    for offset in sorted(edits):
        out += [source[end:offset], edits[offset][1]]
        end = edits[offset][0]
    return "".join([*out, source[end:]])


def _wrapped(text: str) -> str:
    text = text.strip()
    return text if _PLAIN_PATH.fullmatch(text) else f"({text})"


def _edit(words: list[Lexeme], number: int, wanted: Mapping[tuple[str, ...], str]) -> tuple[int, str] | None:
    """Where the longest known prefix that starts at this name ends, and what replaces it."""
    path: tuple[str, ...] = ()
    best = None
    for key, end in _keys(words, number):
        path = (*path, key)
        if path in wanted:
            best = (end, wanted[path])
    return best


def _keys(words: list[Lexeme], number: int) -> list[tuple[str, int]]:
    """The name and the constant keys behind it, each with the offset where it ends."""
    keys = [(words[number].text, words[number].end)]
    number += 1
    while number + 2 < len(words):
        first, second, third = words[number : number + 3]
        if first.text == "." and second.type == "name":
            keys.append((second.text, second.end))
            number += 2
        elif first.text == "[" and second.type == "string" and third.text == "]":
            keys.append((second.text[1:-1], third.end))
            number += 3
        else:
            break
    return keys
