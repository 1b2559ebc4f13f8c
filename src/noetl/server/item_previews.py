"""The items of a loop as short JSON texts, from its collection: a list, or a reference to a stored one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from noetl.errors import NoetlError
from noetl.reference import Reference, encode_json
from noetl.results.read import read_value
from noetl.runtime.contents import SERVER_BYTES
from noetl.runtime.past import Past
from noetl.server.stored_values import StoredValues
from noetl.wording import cut

MAX_PREVIEW = 160
MAX_DISTANCE = 100  # items that are this close are read together
MAX_READS = 100  # for one page


def preview_text(value: Any) -> str:
    """The value as JSON, cut."""
    content = bytes(value) if isinstance(value, msgspec.Raw) else encode_json(value)
    text = content[: 4 * MAX_PREVIEW + 4].decode("utf-8", "ignore")
    return cut(text, MAX_PREVIEW)


async def previews(collection: Any, items: Sequence[int], stored: StoredValues, past: Past) -> dict[int, str]:
    """The previews of some items, which are in order. An item whose value cannot be read has none."""
    if isinstance(collection, Reference):
        with suppress(NoetlError):  # a preview is an extra: the page shows the rest without it
            return await _stored_previews(collection, items, stored, past)
        return {}
    return _previews(collection or [], items)


def _previews(values: Any, items: Sequence[int]) -> dict[int, str]:
    if not isinstance(values, list | tuple):
        return {}
    return {item: preview_text(values[item]) for item in items if item < len(values)}


async def _stored_previews(
    reference: Reference, items: Sequence[int], stored: StoredValues, past: Past
) -> dict[int, str]:
    if reference.is_secret:
        return {}
    if reference.store in ("file", "object"):
        if reference.size > SERVER_BYTES:
            return {}
        return _previews(await past.do(lambda reader: read_value(reader.store.blob, reference)), items)
    texts: dict[int, str] = {}
    for first, last in list(_stretches(items))[:MAX_READS]:
        page = await stored.page(reference.digest, first, last - first + 1)
        texts |= {first + place: preview_text(value) for place, value in enumerate(page.items)}
    return {item: texts[item] for item in items if item in texts}


def _stretches(items: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of items that are close to each other."""
    first = last = None
    for item in items:
        if first is None or last is None:
            first = item
        elif item - last > MAX_DISTANCE or item - first >= 1_000:
            yield first, last
            first = item
        last = item
    if first is not None and last is not None:
        yield first, last
