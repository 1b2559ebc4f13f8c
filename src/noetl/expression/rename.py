"""Rewriting the names in a template's source, and nothing else of it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from noetl.expression.template import parse

_PLAIN_PATH = re.compile(r"[^\W\d]\w*(\.\w+|\[-?\d+\]|\['[^'\\]*'\])*")
_KEY = re.compile(r"""\s*(?:\.\s*(?P<name>[^\W\d]\w*)(?![^\x00-\x7f])|\[\s*(?P<quoted>'[^'\\]*'|"[^"\\]*")\s*\])""")


def rename(source: str, names: Mapping[str, str]) -> str:
    """The source with free names (or dotted prefixes such as `event.name`) replaced by other expressions.

    The longest prefix wins. Names that the template binds itself, attributes, argument names and strings
    stay. A replacement that is not a plain path is put in parentheses.
    """
    replacements: dict[tuple[str, ...], str] = {}
    for name, text in names.items():
        plain = _PLAIN_PATH.fullmatch(text.strip())
        replacements[tuple(name.split("."))] = text.strip() if plain else f"({text.strip()})"
    edits: dict[int, tuple[int, str]] = {}  # where each ends, and what replaces it
    for read in parse(source).reads:
        path: tuple[str, ...] = (str(read.path[0]),)
        end = read.offset + len(path[0])
        if path in replacements:
            edits[read.offset] = (end, replacements[path])
        while (key := _KEY.match(source, end)) is not None:
            path, end = (*path, key["name"] or key["quoted"][1:-1]), key.end()
            if path in replacements:
                edits[read.offset] = (end, replacements[path])
    out, end = [], 0
    for offset in sorted(edits):
        out += [source[end:offset], edits[offset][1]]
        end = edits[offset][0]
    return "".join([*out, source[end:]])
