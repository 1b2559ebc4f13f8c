"""The document as plain maps, lists and scalars that know their positions.

A `Map` is a dict and a `Seq` a list, for code that reads or rewrites a document. The container stores the positions of
its items, because a scalar has no identity of its own. They are offsets; lines and columns are computed on demand
(`Text.mark`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple


class Mark(NamedTuple):
    """A place in the text as people count it; both numbers start at 1."""

    line: int
    column: int


class Span(NamedTuple):
    """The slice of the text that holds a node, and the style of a scalar (`|`, `>`, a quote, or empty)."""

    start: int
    end: int
    style: str = ""


NOWHERE = Span(0, 0)
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
_BLOCK_START = re.compile(r"[^\n]*\n(?:[ \t]*\r?\n)*( *)")
_WORD = re.compile(r"\w+|[^\w\s]")
MAX_COMPARED_WORDS = 400
_ESCAPED_LINE_END = re.compile(r"\\\r?\n[ \t]*")


class Map(dict[str, Any]):
    __slots__ = ("lost", "span", "spans")

    def __init__(self, span: Span = NOWHERE) -> None:
        super().__init__()
        self.span = span
        self.lost: set[str] = set()  # keys that were refused and removed: written, but of no use
        self.spans: dict[str, tuple[Span, Span]] = {}

    def put(self, key: str, value: Any, key_span: Span, value_span: Span) -> None:
        self[key] = value
        self.spans[key] = (key_span, value_span)


class Seq(list[Any]):
    __slots__ = ("lost", "span", "spans")

    def __init__(self, span: Span = NOWHERE) -> None:
        super().__init__()
        self.span = span
        self.lost: list[Any] = []  # items that were refused and removed
        self.spans: list[Span] = []


def span_of(node: Any) -> Span:
    return node.span if isinstance(node, Map | Seq) else NOWHERE


def span_in(container: Any, key: str | int) -> Span:
    if isinstance(container, Map) and key in container.spans:
        return container.spans[str(key)][1]
    if isinstance(container, Seq) and isinstance(key, int) and key < len(container.spans):
        return container.spans[key]
    return span_of(container)


def key_span(container: Any, key: str) -> Span:
    if isinstance(container, Map) and key in container.spans:
        return container.spans[key][0]
    return span_of(container)


def is_template(value: object) -> bool:
    return isinstance(value, str) and ("{{" in value or "{%" in value or "{#" in value)


def text_size(node: Any) -> int:
    """About how many characters a node takes as text."""
    size, nodes = 0, [node]
    for part in nodes:  # the parts of a part are appended to them
        if isinstance(part, str):
            size += len(part) + 2
        elif isinstance(part, dict):
            size += 2 + 3 * len(part) + sum(map(len, part))
            nodes.extend(part.values())
        elif isinstance(part, list):
            size += 2 + len(part)
            nodes.extend(part)
        elif part is not None:
            size += 8
    return size


def unshare(node: Any, visited: set[int] | None = None) -> None:
    """Give every place a node of its own: an alias is one object at several places, and rewriting one changes all."""
    visited = set() if visited is None else visited
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in list(pairs):
        if isinstance(value, dict | list):
            if id(value) in visited:
                node[key] = value = deepcopy(value)
            visited.add(id(value))
            unshare(value, visited)


def plain(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [plain(item) for item in node]
    return node


class Text:
    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text
        self._walked: tuple[Span | None, list[int]] = (None, [])  # of the last scalar that was looked up
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def mark(self, offset: int) -> Mark:
        """Line and column of an offset; one outside the text is moved to its nearer end."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self._starts, offset)
        return Mark(line, offset - self._starts[line - 1] + 1)

    def offset(self, mark: Mark) -> int:
        """The offset of a mark; one outside the text is moved to the nearest place of its line, or of the text."""
        if mark.line > len(self._starts):
            return len(self.text)
        start = self._starts[max(mark.line, 1) - 1]
        end = self._starts[mark.line] - 1 if 0 < mark.line < len(self._starts) else len(self.text)
        return min(start + max(mark.column, 1) - 1, max(end, start))

    def line(self, number: int, limit: int = 1 << 20) -> str:
        start = self._starts[number - 1]
        end = self._starts[number] - 1 if number < len(self._starts) else len(self.text)
        return self.text[start : min(end, start + limit)].rstrip("\r")

    def first_line(self, span: Span, value: str) -> Mark | None:
        """Where a text begins if each of its lines is a line of the file; None for folded, escaped and shared ones."""
        if span.style == "|" and (block := _BLOCK_START.match(self.text, span.start, span.end)):
            return Mark(self.mark(span.start).line + 1, len(block[1]) + 1)
        mark, shared = self.mark(span.start), self.text.startswith(("*", "&", "!"), span.start)
        if shared or span.style == ">" or "\n" in value or mark.line != self.mark(span.end - 1).line:
            return None
        return Mark(mark.line, mark.column + len(span.style))

    def mark_in(self, span: Span, value: str, offset: int) -> Mark | None:
        """The place of character `offset` of a scalar's value; None if folds or escapes make its source differ."""
        if "\n" not in value and span.style != "|":
            start = span.start + len(span.style)
            return self.mark(start + offset) if self.text.startswith(value, start) else None
        first = self.first_line(span, value)
        if first is None:
            return None
        begin = value.rfind("\n", 0, offset) + 1
        return Mark(first.line + value.count("\n", 0, offset), first.column + offset - begin)

    def offset_in(self, span: Span, value: str, offset: int) -> int:
        """The place of character `offset` of a scalar's value."""
        if self._walked[0] != span:
            self._walked = span, self._walk(span, value)
        places = self._walked[1]
        return places[min(max(offset, 0), len(places) - 1)]

    def breaks(self, span: Span, value: str) -> Iterator[tuple[int, int, Mark]]:
        """Line and column of each character of a value that does not directly follow the one before it in the source,
        with its place: at the start of a line, after a fold, after an escape. Empty for an alias."""
        line, column, following = 1, 1, -1
        shared = self.text.startswith("*", span.start)
        for char, place in zip("" if shared else value, self._walk(span, value), strict=False):
            if column == 1 or (place != following and not char.isspace()):
                yield line, column, self.mark(place)
            following = place + 1
            line, column = (line + 1, 1) if char == "\n" else (line, column + 1)

    def _walk(self, span: Span, value: str) -> list[int]:
        """The place of each character of the value, and of its end.

        Walks the value and its source side by side. Folding, indentation and escapes make the two differ, but never
        in the order of what can be visible, so blanks are skipped on either side and an escape counts as one character.
        A value that was rewritten since it was read is compared with its source word by word.
        """
        if span.style == "" and self.text.startswith("*", span.start):
            return [span.start]  # an alias: the value is elsewhere
        start, end, style = span
        end = min(end, len(self.text))  # that of a rewritten document is in the text that it was read from
        if properties := _PROPERTIES.match(self.text, start, end):  # anchor and tag
            start = properties.end()
        if style in ("|", ">"):
            newline = self.text.find("\n", start, end)
            start = newline + 1 if newline >= 0 else end
        elif style:
            start, end = start + 1, max(end - 1, start + 1)
        at, escapes, rewritten = start, style == '"', False
        places = []
        for char in value:
            skipped = False
            while at < end:
                if escapes and (line_end := _ESCAPED_LINE_END.match(self.text, at, end)):
                    at = line_end.end()
                elif self.text[at].isspace() and self.text[at] != char:
                    at, skipped = at + 1, True
                else:
                    break
            places.append(min(at, end))
            visible = at < end and not self.text[at].isspace()
            folded = char.isspace() and visible and (skipped or not escapes or self.text[at] != "\\")
            if at >= end or folded:
                continue
            if style == "'" and self.text.startswith("''", at):
                at += 2
            elif escapes and self.text[at] == "\\":
                at += {"x": 4, "u": 6, "U": 10}.get(self.text[at + 1 : at + 2], 2)
            else:
                rewritten = rewritten or (visible and self.text[at] != char)
                at += 1
        walked = [*places, min(at, end)]
        return self._aligned(start, end, value) or walked if rewritten else walked

    def _aligned(self, start: int, end: int, value: str) -> list[int]:
        """The places in the source of a rewritten value; those of new words are where the old ones begin. Empty for
        long texts."""
        from difflib import SequenceMatcher

        old, new = list(_WORD.finditer(self.text, start, end)), list(_WORD.finditer(value))
        if max(len(old), len(new)) > MAX_COMPARED_WORDS:
            return []
        matcher = SequenceMatcher(None, [word[0] for word in old], [word[0] for word in new], autojunk=False)
        places, bounds = [start] * (len(value) + 1), [word.start() for word in old] + [end]
        for tag, first, _, new_first, new_last in matcher.get_opcodes():
            for number in range(new_first, new_last):
                place = bounds[first + number - new_first if tag == "equal" else first]
                begin, last = new[number].span()
                following = new[number + 1].start() if number + 1 < len(new) else len(value) + 1
                for offset in range(begin, following):
                    inside = min(offset, last) - begin if tag == "equal" else 0
                    places[offset] = min(place + inside, end)
        return places
