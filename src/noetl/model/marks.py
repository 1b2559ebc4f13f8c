"""How references are marked in JSON.

A reference is `{"$ref": {...}}`. A key of the data that starts with `$ref`, `$$ref` and so on gets one more `$`, so
data from an author or a tool is never taken for a reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MARK = "$ref"
KEY_PATTERN = rb'\\*"(?:[^"\\]*/)?([0-9a-f]{64})\\*"'
"""The key of stored content in JSON: a hash, or an address that ends with it."""
_REFERENCE = re.compile(rb'\$ref\\*":\{\\*"(?:store|checksum)\\*":\\*"[^"\\]*\\*",\\*"key\\*":' + KEY_PATTERN)
"""Also inside a JSON text, where quotes are escaped."""


def escaped(key: str) -> str:
    return f"${key}" if _looks_marked(key) else key


def unescaped(key: str) -> str:
    return key[1:] if key[:2] == "$$" and _looks_marked(key) else key


def _looks_marked(key: str) -> bool:
    return key[:1] == "$" and key.lstrip("$").startswith("ref")


def may_hold_references(data: bytes) -> bool:
    """Whether JSON may contain references or escaped keys."""
    return b'"$ref' in data or b'"$$' in data


def referenced_keys(data: bytes) -> Iterator[str]:
    """The keys of the references in JSON. May find more (a text can look like a reference), never fewer."""
    return (key.decode() for key in _REFERENCE.findall(data))
