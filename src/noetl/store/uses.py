"""Which stored contents a change uses, found in its bytes, so that a store knows what it may remove.

An execution uses the contents that it stores and those that its events refer to. Contents that hold references, and the
list of the chunks of a loop, use other contents in turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from noetl.model.marks import KEY_PATTERN, MARK, referenced_keys
from noetl.store.ports import Change

_MARK = MARK.encode()
_CHUNKS = b'{"chunks":['
_ANY_KEY = re.compile(KEY_PATTERN)


def used_keys(change: Change) -> set[str]:
    """The keys of the contents that a change stores or refers to."""
    used = {key for key, _ in change.blobs}
    for row in change.rows:
        if _MARK in row.data:
            used.update(referenced_keys(row.data))
    return used


def parts_of(blobs: Iterable[tuple[str, bytes]]) -> set[tuple[str, str]]:
    """Pairs of a content and one that it refers to."""
    return {(whole, part) for whole, content in blobs for part in _parts(content) if part != whole}


def _parts(content: bytes) -> Iterator[str]:
    if content.startswith(_CHUNKS):
        yield from (key.decode() for key in _ANY_KEY.findall(content))
    if _MARK in content:
        yield from referenced_keys(content)
