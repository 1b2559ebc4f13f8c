"""Reads any text, however broken, as the tree of a document, and finds the place of the cursor in it.

`dsl.reader` stops at the first error, and at the cursor there usually is one: half a key, an open quote or brace. This
reader goes by lines and indentation instead, so a broken line costs that line alone. It reads the YAML that playbooks
are written in; aliases and tags are skipped. Its work is linear in the text, with the limits of `dsl.reader`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from noetl.dsl.reader import MAX_DEPTH, MAX_NODES, resolve
from noetl.dsl.tree import Map, Seq, Span

Role: TypeAlias = Literal["key", "value", "node", "item"]
"""The kind of node at the cursor: a key of the last map, the value of a key on its line, a node on a line of its own,
or a new item of the last list, whose dash is missing."""

_COLON = re.compile(r":(?=[ \t\r]|$)")
_FLOW_COLON = re.compile(r":(?=[ \t\r\n,\]}]|$)")
_FLOW_PLAIN_END = re.compile(r"[,\]}\n]|[ \t]#")
_FLOW_KEY_END = re.compile(r":(?=[ \t\r\n,\]}]|$)|[,\]}\n]")
_TEMPLATE_END = re.compile(r"\}\}|\n")
_FLOW_GAP = re.compile(r"(?:[\s,]|#[^\n]*)*")
_QUOTED = {'"': re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL), "'": re.compile(r"'(?:[^']|'')*'")}
_COMMENT = re.compile(r"[ \t]#")
_PROPERTY = re.compile(r"[&!][^\s,\[\]{}]*[ \t]*")
_CONTENT_LINE = re.compile(r"^[ \t]*[^ \t\r\n#]", re.MULTILINE)
_BLOCK_SCALAR = re.compile(r"[|>][-+0-9]*[ \t]*(?:#.*)?\r?$")


NO_CURSOR = -1  # for a document that is read as a whole


class PathPart(NamedTuple):
    """A map or list on the path to the cursor, and the key or index there; None for a key that is being typed."""

    node: Map | Seq
    key: Any

    @property
    def value(self) -> Any:
        """The value of the key; None if that is not written yet."""
        if isinstance(self.node, Map):
            return self.node.get(self.key)
        return self.node[self.key] if self.key is not None and self.key < len(self.node) else None


class CursorSite(NamedTuple):
    """Where the cursor is. The word at the cursor is between `start` and `end`."""

    path: tuple[PathPart, ...]
    role: Role
    start: int
    end: int


class LooseDocument(NamedTuple):
    root: Map
    site: CursorSite | None
    """None in a comment, and where nothing can be typed."""


def read_loosely(text: str, cursor: int) -> LooseDocument:
    reader = _LooseReader(text, cursor)
    reader.read()
    root = reader.document[0]
    return LooseDocument(root if isinstance(root, Map) else Map(), reader.site)


@dataclass(slots=True)
class _Block:
    """A map or list in block style whose lines begin at `indent`. `pending`: the value of `key` is on later lines."""

    indent: int
    node: Map | Seq
    key: Any
    pending: bool


class _LooseReader:
    def __init__(self, text: str, cursor: int) -> None:
        self.text, self.cursor = text, cursor
        self.document = Seq()
        self.document.append(None)
        self.document.spans.append(Span(0, len(text)))
        self.stack = [_Block(-1, self.document, 0, pending=True)]
        self.site: CursorSite | None = None
        self.nodes = 0
        self.position = 0  # start of the next line
        self.cursor_line = text.rfind("\n", 0, max(cursor, 0)) + 1

    def read(self) -> None:
        while self.position < len(self.text) or (not self.position and not self.text):
            self._skip_lines()
            start = self.position
            if start and start == len(self.text):
                break
            end = self._line_end(start)
            self.position = end + 1
            first = start
            while first < end and self.text[first] in " \t":
                first += 1
            if first == end or self.text[first] in "#\r":
                if start <= self.cursor <= first and self.text[first : first + 1] != "#":
                    self._blank(self.cursor - start)
            elif not self.text.startswith(("---", "...", "%"), start):
                nodes = self.nodes
                self._entry(first - start, first, end)
                self.nodes = max(self.nodes, nodes + 1)  # a line that adds nothing takes time as well
            if self.nodes > MAX_NODES:
                return
        if self.cursor >= len(self.text) and self.text.endswith("\n") and self.site is None:
            self._blank(0)

    def _skip_lines(self) -> None:
        """Go to the next line with content, or to that of the cursor."""
        if self.position != self.cursor_line:
            end = self.cursor_line if self.position < self.cursor_line else len(self.text)
            line = _CONTENT_LINE.search(self.text, self.position, end)
            self.position = line.start() if line else end

    def _line_end(self, start: int) -> int:
        end = self.text.find("\n", start)
        return len(self.text) if end < 0 else end

    # -- the path to the cursor

    def _path(self) -> tuple[PathPart, ...]:
        return tuple(PathPart(block.node, block.key) for block in self.stack[1:])

    def _claim(self, start: int, end: int, path: tuple[PathPart, ...], role: Role) -> None:
        if self.site is None and start <= self.cursor <= end:
            self.site = CursorSite(path, role, start, end)

    def _blank(self, indent: int) -> None:
        """The cursor is on an empty line: what may begin at its column, while later lines go on as before."""
        stack = list(self.stack)
        while stack[-1].indent > indent:
            stack.pop()
        top = stack[-1]
        if isinstance(top.node, Seq) and top.indent == indent and stack[-2].indent == indent:
            stack.pop()  # a list at the indentation of its key: rather the next key
            top = stack[-1]
        path = [PathPart(block.node, block.key) for block in stack[1:]]
        role: Role = "node"
        if top.indent == indent:
            path[-1] = PathPart(top.node, None if isinstance(top.node, Map) else len(top.node))
            role = "key" if isinstance(top.node, Map) else "item"
        elif not top.pending:
            return
        self._claim(self.cursor, self.cursor, tuple(path), role)

    # -- block style

    def _entry(self, indent: int, at: int, end: int) -> None:
        is_dash = self.text[at] == "-" and (at + 1 == end or self.text[at + 1] in " \t\r")
        self._close(indent, is_dash)
        if is_dash:
            self._item(indent, at, end)
            return
        key = self._key(at, end)
        if key is None:
            self._lone(indent, at, end)
            return
        name, key_end, colon = key
        block = self._mapping(indent, at)
        if block is None:
            return
        node, span = block.node, Span(at, key_end)
        assert isinstance(node, Map)
        node.put(name, None, span, Span(colon + 1, colon + 1))
        block.key, block.pending = name, False
        self.nodes += 1
        path = self._path()
        self._claim(at, key_end, (*path[:-1], PathPart(node, None)), "key")
        self._value(block, indent, colon + 1, end)

    def _close(self, indent: int, is_dash: bool) -> None:
        while self.stack[-1].indent > indent or (
            not is_dash and isinstance(self.stack[-1].node, Seq) and self.stack[-1].indent == indent
        ):
            self.stack.pop()

    def _key(self, at: int, end: int) -> tuple[str, int, int] | None:
        """Name, end and colon of the key that begins here."""
        first = self.text[at]
        if first in _QUOTED:
            match = _QUOTED[first].match(self.text, at, end)
            if match is None:
                return None
            key_end = match.end()
            colon = key_end
            while colon < end and self.text[colon] in " \t":
                colon += 1
            return (match[0][1:-1], key_end, colon) if _COLON.match(self.text, colon, end) else None
        if first in "{[|>*&!%@`#":
            return None
        match = _COLON.search(self.text, at, end)
        if match is None or _COMMENT.search(self.text, at, match.start()):
            return None
        name = self.text[at : match.start()].rstrip()
        return name, at + len(name), match.start()

    def _mapping(self, indent: int, at: int) -> _Block | None:
        top = self.stack[-1]
        if isinstance(top.node, Map) and top.indent == indent:
            return top
        return self._opened(Map(Span(at, at)), indent) if top.pending else None

    def _opened(self, node: Map | Seq, indent: int) -> _Block | None:
        if len(self.stack) > MAX_DEPTH:
            return None
        top = self.stack[-1]
        top.node[top.key] = node
        top.pending = False
        self.stack.append(_Block(indent, node, None, pending=False))
        return self.stack[-1]

    def _item(self, indent: int, at: int, end: int) -> None:
        block: _Block | None = self.stack[-1]
        assert block is not None
        if not (isinstance(block.node, Seq) and block.indent == indent):
            block = self._opened(Seq(Span(at, at)), indent) if block.pending else None
        if block is None:
            return
        assert isinstance(block.node, Seq)
        block.key, block.pending = len(block.node), True
        block.node.append(None)
        self.nodes += 1
        inside = at + 1
        while inside < end and self.text[inside] in " \t":
            inside += 1
        block.node.spans.append(Span(inside, inside))
        if inside < end and self.text[inside] not in "#\r":
            self._entry(indent + inside - at, inside, end)
        elif at < self.cursor <= inside:
            self._claim(self.cursor, self.cursor, self._path(), "node")

    def _lone(self, indent: int, at: int, end: int) -> None:
        """A line without a key: the value of the key or dash before it, or half a key."""
        top = self.stack[-1]
        if top.pending:
            self._scalar(top, indent, at, end, "node")
        elif isinstance(top.node, Map) and top.indent == indent:
            self._claim(at, self._plain_end(at, end), (*self._path()[:-1], PathPart(top.node, None)), "key")

    def _value(self, block: _Block, indent: int, at: int, end: int) -> None:
        start = at
        while at < end and self.text[at] in " \t":
            at += 1
        if at == end or self.text[at] in "#\r":
            block.pending = True
            if start <= self.cursor <= at:
                self._claim(self.cursor, self.cursor, self._path(), "value")
            return
        self._scalar(block, indent, at, end, "value")

    def _scalar(self, block: _Block, indent: int, at: int, end: int, role: Role) -> None:
        """A value that begins on this line."""
        if start := _PROPERTY.match(self.text, at, end):
            at = start.end()
        if at >= end:
            block.pending = True
            return
        path, first = self._path(), self.text[at]
        block.pending = False
        value: Any
        if _BLOCK_SCALAR.match(self.text, at, end):
            last = self._region(indent, end)
            value, span = self.text[end + 1 : last], Span(at, last, first)
            self.position = last + 1
            self._claim(end + 1, last, path, "value")
        elif first in "{[" and not self.text.startswith(("{{", "{%"), at):
            value, stop = self._flow(at, self._region(indent, end), path)
            span = Span(at, stop)
            if stop > end:
                self.position = self._line_end(stop) + 1
        elif first in _QUOTED:
            stop, closed = self._quoted_end(at, self._region(indent, end))
            value, span = self.text[at + 1 : stop - closed], Span(at, stop, first)
            if stop > end:
                self.position = self._line_end(stop) + 1
            self._claim(at, stop - closed, path, "value")
        else:
            stop = self._plain_end(at, end)
            value, span = _resolved(self.text[at:stop]), Span(at, stop)
            self._claim(at, stop, path, role)
        self.nodes += 1
        _put(block.node, block.key, value, span)

    def _plain_end(self, at: int, end: int) -> int:
        comment = _COMMENT.search(self.text, at, end)
        stop = comment.start() if comment else end
        while stop > at and self.text[stop - 1] in " \t\r":
            if stop == self.cursor:
                break  # a word may follow
            stop -= 1
        return stop

    def _region(self, indent: int, end: int) -> int:
        """The end of the lines after this one that are indented further, or close brackets."""
        while end < len(self.text):
            start, at = end + 1, end + 1
            following = self._line_end(start)
            while at < following and self.text[at] in " \t\r":
                at += 1
            if at < following and at - start <= indent and self.text[at] not in "}]":
                return end
            end = following
        return end

    def _quoted_end(self, at: int, limit: int) -> tuple[int, bool]:
        """Where a quoted text ends, and whether its quote is closed; an open one at the cursor ends with its line."""
        match = _QUOTED[self.text[at]].match(self.text, at, limit)
        if match and "\n" not in match[0]:
            return match.end(), True
        line_end = min(self._line_end(at), limit)
        if match and not at <= self.cursor <= line_end:
            return match.end(), True
        return line_end, False

    # -- flow style

    def _flow(self, at: int, limit: int, path: tuple[PathPart, ...]) -> tuple[Map | Seq, int]:
        node: Map | Seq = Map(Span(at, at)) if self.text[at] == "{" else Seq(Span(at, at))
        position = at + 1
        while self.nodes <= MAX_NODES:
            gap = position
            match = _FLOW_GAP.match(self.text, gap, limit)
            position = match.end() if match else gap
            is_over = position >= limit or self.text[position] in "}]"
            if gap <= self.cursor <= position - (not is_over) and not self._in_comment(gap):
                key = None if isinstance(node, Map) else len(node)
                self._claim(self.cursor, self.cursor, (*path, PathPart(node, key)), "key" if key is None else "node")
            if is_over:
                return node, min(position + 1, limit)
            if isinstance(node, Map):
                position = self._flow_pair(node, position, limit, path)
            else:
                node.append(None)
                node.spans.append(Span(position, position))
                position = self._flow_value((*path, PathPart(node, len(node) - 1)), position, limit, "node")
            self.nodes += 1
        return node, limit

    def _in_comment(self, gap: int) -> bool:
        start = self.text.rfind("\n", gap, self.cursor) + 1 or gap
        return "#" in self.text[start : self.cursor]

    def _flow_pair(self, node: Map, at: int, limit: int, path: tuple[PathPart, ...]) -> int:
        if self.text[at] in _QUOTED:
            stop, closed = self._quoted_end(at, limit)
            name = self.text[at + 1 : stop - closed]
        else:
            match = _FLOW_KEY_END.search(self.text, at, limit)
            stop = match.start() if match else limit
            name = self.text[at:stop].rstrip()
        self._claim(at, at + len(name), (*path, PathPart(node, None)), "key")
        colon = stop
        while colon < limit and self.text[colon] in " \t":
            colon += 1
        if not _FLOW_COLON.match(self.text, colon, limit):
            return max(stop, at + 1)
        node.put(name, None, Span(at, at + len(name)), Span(colon + 1, colon + 1))
        value = colon + 1
        while value < limit and self.text[value].isspace():
            value += 1
        inner = (*path, PathPart(node, name))
        if value >= limit or self.text[value] in ",}]":
            if colon < self.cursor <= value:
                self._claim(self.cursor, self.cursor, inner, "value")
            return value
        return self._flow_value(inner, value, limit, "value")

    def _flow_value(self, path: tuple[PathPart, ...], at: int, limit: int, role: Role) -> int:
        if start := _PROPERTY.match(self.text, at, limit):
            at = start.end()
        if at >= limit:
            return limit
        node, key = path[-1]
        first = self.text[at]
        value: Any
        if first in "{[" and not self.text.startswith(("{{", "{%"), at) and len(path) < MAX_DEPTH:
            value, stop = self._flow(at, limit, path)
            span = Span(at, stop)
        elif first in _QUOTED:
            stop, closed = self._quoted_end(at, limit)
            value, span = self.text[at + 1 : stop - closed], Span(at, stop, first)
            self._claim(at, stop - closed, path, "value")
        else:
            stop = self._flow_plain_end(at, limit)
            value, span = _resolved(self.text[at:stop].strip()), Span(at, stop)
            self._claim(at, stop, path, role)
        _put(node, key, value, span)
        return max(stop, at + 1)

    def _flow_plain_end(self, at: int, limit: int) -> int:
        if self.text.startswith(("{{", "{%"), at):  # not quoted: it ends with its braces, or with its line
            closing = _TEMPLATE_END.search(self.text, at, limit)
            return limit if closing is None else closing.start() + 2 * (closing[0] != "\n")
        match = _FLOW_PLAIN_END.search(self.text, at, limit)
        return match.start() if match else limit


def _resolved(text: str) -> Any:
    try:
        return resolve(text)
    except ValueError:
        return text


def _put(node: Map | Seq, key: Any, value: Any, span: Span) -> None:
    node[key] = value
    if isinstance(node, Map):
        node.spans[key] = (node.spans[key][0], span)
    else:
        node.spans[key] = span
