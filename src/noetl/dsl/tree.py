"""The document as plain maps, lists and scalars that remember where they stand.

A `Map` is a dict and a `Seq` a list, so code that reads or rewrites a document needs no second vocabulary, and the
same rewriting works on the round-trip tree that `noetl migrate` edits. Positions sit in the container: a scalar in
YAML has no identity of its own. They are offsets; lines and columns are worked out when somebody asks (`Text.mark`).
"""

from __future__ import annotations

from bisect import bisect_right
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


class Map(dict[str, Any]):
    """A mapping with the place of itself, of each key and of each value."""

    __slots__ = ("span", "spans")

    def __init__(self, span: Span = NOWHERE) -> None:
        super().__init__()
        self.span = span
        self.spans: dict[str, tuple[Span, Span]] = {}

    def put(self, key: str, value: Any, key_span: Span, value_span: Span) -> None:
        self[key] = value
        self.spans[key] = (key_span, value_span)


class Seq(list[Any]):
    """A list with the place of itself and of each item."""

    __slots__ = ("item_spans", "span")

    def __init__(self, span: Span = NOWHERE) -> None:
        super().__init__()
        self.span = span
        self.item_spans: list[Span] = []

    def put(self, value: Any, span: Span) -> None:
        self.append(value)
        self.item_spans.append(span)


def span_of(node: Any) -> Span:
    """Where a map or list itself stands."""
    if isinstance(node, Map):
        return node.span
    return node.span if isinstance(node, Seq) else NOWHERE


def span_in(container: Any, key: str | int) -> Span:
    """Where the value at `key` of a map, or at that index of a list, stands."""
    if isinstance(key, str):
        return container.spans[key][1] if isinstance(container, Map) and key in container.spans else span_of(container)
    if isinstance(container, Seq) and key < len(container.item_spans):
        return container.item_spans[key]
    return span_of(container)


def key_span(container: Any, key: str) -> Span:
    """Where the key itself stands."""
    if isinstance(container, Map) and key in container.spans:
        return container.spans[key][0]
    return span_of(container)


def plain(node: Any) -> Any:
    """The node as ordinary dicts and lists, for the model."""
    if isinstance(node, dict):
        return {key: plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [plain(item) for item in node]
    return node


class Text:
    """A source text that can say where an offset lies."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text
        self._starts = [0]
        at = text.find("\n")
        while at >= 0:
            self._starts.append(at + 1)
            at = text.find("\n", at + 1)

    def mark(self, offset: int) -> Mark:
        """Line and column of an offset; one outside the text is moved to its nearer end."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self._starts, offset)
        return Mark(line, offset - self._starts[line - 1] + 1)

    def line(self, number: int) -> str:
        """The line of that number, without its end."""
        end = self._starts[number] - 1 if number < len(self._starts) else len(self.text)
        return self.text[self._starts[number - 1] : end].rstrip("\r")

    def offset_in(self, span: Span, value: str, offset: int) -> int:
        """Where character `offset` of a scalar's value stands in the text.

        Walks the value and its source side by side. Folding, indentation and escapes make the two differ, but never
        in the order of what can be seen, so blanks are skipped on either side and an escape counts as one character.
        """
        at, end = self._content(span)
        seen = 0
        while at < end and seen < len(value):
            here, there = value[seen], self.text[at]
            if here.isspace() and not there.isspace() and there != "\\":
                if seen >= offset:
                    break
                seen += 1
            elif there.isspace() and there != here:
                at += 1
            elif seen >= offset:
                break
            else:
                at += self._width(at, span.style)
                seen += 1
        return min(at, end)

    def _content(self, span: Span) -> tuple[int, int]:
        """The slice of a scalar without its quotes or block header."""
        if span.style in ("|", ">"):
            newline = self.text.find("\n", span.start, span.end)
            return (newline + 1 if newline >= 0 else span.end), span.end
        if span.style:
            return span.start + 1, max(span.end - 1, span.start + 1)
        return span.start, span.end

    def _width(self, at: int, style: str) -> int:
        """How many characters of the text stand for the one character of the value at `at`."""
        if style == "'" and self.text.startswith("''", at):
            return 2
        if style == '"' and self.text[at] == "\\":
            return {"x": 4, "u": 6, "U": 10}.get(self.text[at + 1 : at + 2], 2)
        return 1
