"""Pages of stored values: of a list, of a map, of the lines of a text.

A list of a large loop is stored as chunks, whose items are in the order in which they ended; other values are stored in
one piece. The first request for a value finds out where its items are. This index is small and cached, so that each
page reads only the bytes it needs. Values are neither decoded nor held in memory: a page has the bytes as stored.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from typing import Any, Literal, NamedTuple, NoReturn

import msgspec

from noetl.errors import NotFound
from noetl.json_errors import NOT_JSON
from noetl.latest import Latest
from noetl.results.read import Manifest, decode_manifest
from noetl.server.second_connection import SecondConnection
from noetl.store.store import Store

PAGE_BYTES = 1 << 20  # a page ends after an item that exceeds this size
BLOCK_ITEMS, BLOCK_BYTES = 1_000, 1 << 18  # the index knows where such a number of items or bytes begins
LINE_CHARACTERS = 1 << 16  # a longer line is sent in parts
MAX_SPLIT_ITEMS = 500_000  # of a list that is split at once, which takes a hundred bytes for each item
CHUNKS_PER_CALL = 16
MAX_INDEXES = 20
WHITESPACE = re.compile(r"[ \t\n\r]*")
MANIFEST = re.compile(rb'\s*\{"chunks":\["[0-9a-f]{64}"')
KINDS = {"[": "list", "{": "map", '"': "text"}

_encode = msgspec.json.Encoder().encode

Kind = Literal["list", "map", "text", "value", "binary"]
Pair = tuple[int, msgspec.Raw]


class ValuePage(msgspec.Struct, frozen=True):
    """A part of a stored value. `items` are those of a list, `{key, value}` of a map, lines of a text with their ends.

    `total` counts items, keys, or characters; of `binary` content it is the size in bytes. `next` is the `after` of the
    next page, null at the end. A value that is none of these is its only item.
    """

    kind: Kind
    total: int
    items: list[Any]
    next: int | None


class MapItem(msgspec.Struct, frozen=True):
    key: str
    value: msgspec.Raw


class Blocks(NamedTuple):
    """Where the items of a list or a map in one piece are: every so often the number of an item, and its first byte."""

    kind: Literal["list", "map"]
    total: int
    numbers: array[int]
    offsets: array[int]  # and last the end of the last item


class Chunk(NamedTuple):
    first: int
    last: int
    key: str


class Chunks(NamedTuple):
    total: int
    chunks: list[Chunk]


class Whole(NamedTuple):
    """A value without items; `total` as in its page."""

    kind: Literal["text", "value", "binary"]
    total: int


Index = Blocks | Chunks | Whole


class StoredValues:
    def __init__(self, connection: SecondConnection) -> None:
        self._do = connection.do
        self._indexes: Latest[str, Index] = Latest(MAX_INDEXES)

    async def page(self, key: str, after: int, limit: int) -> ValuePage:
        """The items after the first `after` ones; NotFound without the value."""
        index = self._indexes.get(key) or await self._index(key)
        self._indexes[key] = index
        return await self._do(lambda store: _page(store, key, index, after, limit))

    async def _index(self, key: str) -> Index:
        chunks = await self._chunks(key)
        return chunks if chunks is not None else await self._do(lambda store: index_of(_blob(store, key)))

    async def _chunks(self, key: str) -> Chunks | None:
        """The chunks of the result of a loop; None if the value is something else."""
        manifest = await self._do(lambda store: _manifest(store, key))
        if manifest is None:
            return None
        keys = list(dict.fromkeys(manifest.chunks))
        chunks: list[Chunk] = []
        for start in range(0, len(keys), CHUNKS_PER_CALL):  # others may use the connection in between
            batch = keys[start : start + CHUNKS_PER_CALL]
            read = await self._do(partial(_read_chunks, keys=batch))
            if read is None:
                return None
            chunks += read
        return Chunks(manifest.total, chunks)


def _blob(store: Store, key: str) -> bytes:
    content = store.blob(key)
    if content is None:
        raise NotFound(f"result {key!r} not found")
    return content


def _manifest(store: Store, key: str) -> Manifest | None:
    if not MANIFEST.match(store.blob_part(key, 0, 100) or b""):
        return None
    try:
        return decode_manifest(_blob(store, key))
    except NOT_JSON:
        return None


def _read_chunks(store: Store, keys: list[str]) -> list[Chunk] | None:
    """Which items the chunks have; None if one is not a chunk."""
    chunks = []
    for key in keys:
        try:
            numbers = [number for number, _ in _pairs(store, key)]
        except (*NOT_JSON, NotFound):
            return None
        chunks.append(Chunk(min(numbers, default=0), max(numbers, default=-1), key))
    return chunks


def _pairs(store: Store, key: str) -> list[Pair]:
    return msgspec.json.decode(_blob(store, key), type=list[Pair])


# -- the index of a value in one piece ------------------------------------------------------------------------------


def index_of(content: bytes) -> Blocks | Whole:
    if not _is_utf8(content):
        return Whole("binary", len(content))
    if content.startswith(b"[") and content.count(b",") < MAX_SPLIT_ITEMS and (blocks := _split(content)) is not None:
        return blocks
    text = content.decode("latin-1")  # a character for each byte; the structure of JSON is ASCII
    start = _skip(text, 0)
    try:
        match KINDS.get(text[start : start + 1]):
            case "list":
                return _blocks(text, "list", start + 1, "]")
            case "map":
                return _blocks(text, "map", start + 1, "}")
            case "text":
                return Whole("text", len(msgspec.json.decode(content, type=str)))
        msgspec.json.decode(content)
        return Whole("value", 1)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return Whole("binary", len(content))


def _is_utf8(content: bytes) -> bool:
    try:
        return content.isascii() or bool(content.decode())
    except UnicodeDecodeError:
        return False


def _split(content: bytes) -> Blocks | None:
    """The index of a list without whitespace between its items, as most are stored, many times faster than item by
    item; None for another value."""
    try:
        items = msgspec.json.decode(content, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return None
    total, numbers, offsets = len(items), array("Q", [0]), array("Q", [1])
    while numbers[-1] < total:
        block = items[numbers[-1] : numbers[-1] + BLOCK_ITEMS]
        size = _joined_size(block)
        if size > BLOCK_BYTES:
            starts = list(accumulate((len(item) + 1 for item in block), initial=0))
            block = block[: bisect_left(starts, BLOCK_BYTES)]
            size = starts[len(block)]
        numbers.append(numbers[-1] + len(block))
        offsets.append(offsets[-1] + size)
    if not total or offsets[-1] != len(content):
        return None
    offsets[-1] -= 1  # no comma follows the last item
    return Blocks("list", total, numbers[:-1], offsets)


def _joined_size(items: list[msgspec.Raw]) -> int:
    """The bytes of items with a comma after each. Encoding copies them, which is faster than adding up lengths."""
    return len(_encode(items)) - 1


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_value_at = json.JSONDecoder(parse_constant=_no_constant).raw_decode  # one value and its end; ValueError


def _blocks(text: str, kind: Literal["list", "map"], start: int, close: str) -> Blocks:
    total, position = 0, _skip(text, start)
    numbers, offsets = array("Q", [0]), array("Q", [position])
    is_over = text.startswith(close, position)
    while not is_over:
        if total - numbers[-1] >= BLOCK_ITEMS or position - offsets[-1] >= BLOCK_BYTES:
            numbers.append(total)
            offsets.append(position)
        if kind == "map":
            _, end = _value_at(text, position)
            position = _skip(text, _expect(text, end, ":"))
        _, end = _value_at(text, position)
        total += 1
        position = _skip(text, end)
        is_over = text.startswith(close, position)
        if not is_over:
            position = _skip(text, _expect(text, position, ","))
    if _skip(text, position + 1) != len(text):
        raise ValueError("more than one value")
    offsets.append(position)
    return Blocks(kind, total, numbers, offsets)


def _skip(text: str, position: int) -> int:
    match = WHITESPACE.match(text, position)
    return match.end() if match is not None else position


def _expect(text: str, position: int, character: str) -> int:
    position = _skip(text, position)
    if not text.startswith(character, position):
        raise ValueError(f"{character!r} is missing")
    return position + 1


# -- pages ----------------------------------------------------------------------------------------------------------


def _page(store: Store, key: str, index: Index, after: int, limit: int) -> ValuePage:
    match index:
        case Blocks():
            items = _cut(_items_after(store, key, index, after), limit)
            return _items_page(index.kind, index.total, after, items)
        case Chunks():
            return _items_page("list", index.total, after, _cut(_results(store, index, after, limit), limit))
        case Whole("text", total):
            return _text_page(msgspec.json.decode(_blob(store, key), type=str), total, after, limit)
        case Whole("value", total):
            return _items_page("value", total, after, [msgspec.Raw(_blob(store, key))][after:])
    return ValuePage("binary", index.total, [], None)


def _items_page(kind: Kind, total: int, after: int, items: list[Any]) -> ValuePage:
    following = after + len(items)
    return ValuePage(kind, total, items, following if items and following < total else None)


def _cut(items: Iterator[tuple[int, Any]], limit: int) -> list[Any]:
    """As many items as a page may have. Each comes with its size."""
    page: list[Any] = []
    bytes_left = PAGE_BYTES
    for size, item in items:
        page.append(item)
        bytes_left -= size
        if len(page) == limit or bytes_left < 0:
            break
    return page


def _items_after(store: Store, key: str, blocks: Blocks, after: int) -> Iterator[tuple[int, Any]]:
    skipped = bisect_right(blocks.numbers, after) - 1
    for block in range(skipped, len(blocks.numbers)):
        start, end = blocks.offsets[block], blocks.offsets[block + 1]
        part = (store.blob_part(key, start, end - start) or b"").rstrip(b", \t\n\r")
        yield from _block_items(part, blocks.kind)[max(0, after - blocks.numbers[block]) :]


def _block_items(part: bytes, kind: Literal["list", "map"]) -> list[tuple[int, Any]]:
    if kind == "list":
        values = msgspec.json.decode(b"[%b]" % part, type=list[msgspec.Raw])
        return [(_size(value), value) for value in values]
    fields = msgspec.json.decode(b"{%b}" % part, type=dict[str, msgspec.Raw])
    return [(len(key) + _size(value), MapItem(key, value)) for key, value in fields.items()]


def _results(store: Store, index: Chunks, after: int, limit: int) -> Iterator[tuple[int, Any]]:
    """The results of a loop in order; null where an item has none."""
    end = min(index.total, after + limit)
    results: dict[int, msgspec.Raw] = {}
    for chunk in index.chunks:
        if chunk.first < end and chunk.last >= after:
            results.update((number, value) for number, value in _pairs(store, chunk.key) if after <= number < end)
    for number in range(after, end):
        value = results.get(number)
        yield (4, None) if value is None else (_size(value), value)


def _size(value: msgspec.Raw) -> int:
    return memoryview(value).nbytes


def _text_page(text: str, total: int, after: int, limit: int) -> ValuePage:
    items: list[str] = []
    position, end = after, min(total, after + PAGE_BYTES)
    while position < end and len(items) < limit:
        line_end = text.find("\n", position, end) + 1 or end
        line_end = min(line_end, position + LINE_CHARACTERS)
        items.append(text[position:line_end])
        position = line_end
    return ValuePage("text", total, items, position if position < total else None)
