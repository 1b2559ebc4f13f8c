"""Equality of data that can be JSON. For Python, true equals 1; for whoever compares runs, it does not."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.reference import encode_json


def same_data(a: Any, b: Any) -> bool:
    """Whether two values, or two events, are the same data. The order of keys does not count, nor does whether a number
    is written as 1 or as 1.0; a boolean is no number."""
    if a != b:
        return False
    texts = encode_json(a), encode_json(b)
    return texts[0] == texts[1] or _same_kinds(*map(msgspec.json.decode, texts))


def _same_kinds(a: Any, b: Any) -> bool:
    """Whether equal values have booleans in the same places."""
    if isinstance(a, dict):
        return all(_same_kinds(value, b[key]) for key, value in a.items())
    if isinstance(a, list):
        return all(map(_same_kinds, a, b))
    return isinstance(a, bool) == isinstance(b, bool)
