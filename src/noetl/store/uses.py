"""Which stored contents a change needs, found in its bytes, so that a store knows what it may remove.

An execution uses what it brings and what its events refer to. Content that holds references, and the list of the
chunks of a loop, use other contents in turn. What is found here may be more than is meant (a result can look like
a reference), never less: at worst something stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from noetl.store.ports import Change

MARK = b"$ref"
CHUNKS = b'{"chunks":['
KEY = rb'\\*"(?:[^"\\]*/)?([0-9a-f]{64})\\*"'
"""The hash, or a place that ends with it."""
REFERENCE = re.compile(rb'\$ref\\*":\{\\*"(?:store|checksum)\\*":\\*"[^"\\]*\\*",\\*"key\\*":' + KEY)
"""As events and as contents write it, and as text inside of one, where quotes are escaped."""
ANY_KEY = re.compile(KEY)


def used_keys(change: Change) -> set[str]:
    """What its execution brings along or refers to with this change."""
    used = {key for key, _ in change.blobs}
    for row in change.rows:
        if MARK in row.data:
            used.update(_found(REFERENCE, row.data))
    return used


def parts_of(blobs: Iterable[tuple[str, bytes]]) -> set[tuple[str, str]]:
    """Contents and what each of them refers to."""
    return {(whole, part) for whole, content in blobs for part in _parts(content) if part != whole}


def _parts(content: bytes) -> Iterator[str]:
    if content.startswith(CHUNKS):
        yield from _found(ANY_KEY, content)
    if MARK in content:
        yield from _found(REFERENCE, content)


def _found(pattern: re.Pattern[bytes], data: bytes) -> Iterator[str]:
    return (key.decode() for key in pattern.findall(data))
