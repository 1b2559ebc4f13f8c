"""Writes a changed tree as text, and copies unchanged parts from the source.

A node that equals the source at its place is copied with its quotes, comments, flow style, anchors and merge keys, and
only its indentation changes. Other nodes are written in block style. A comment stays with the line below it, or with
the key before it on its line; if that is gone, the comment is moved above its step or section.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from noetl.dsl.tree import NOWHERE, Map, Seq, Span, is_template, span_of

_PLAIN = re.compile(r"[A-Za-z_/$][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*|[0-9]+(?:ms|s|m|h|d)")
_WORDS = frozenset(["null", "true", "false"])
_COLON = re.compile(r"[ \t]*:(?=\s|\Z)")
_COMMENT = re.compile(r"[ \t]+#.*")
_HASH = re.compile(r"(?:^|(?<=[ \t]))#", re.MULTILINE)
_BLANK_END = re.compile(r"(?:\n[ \t]*)+\Z")
_KEEPS_BREAKS = re.compile(r"[|>][0-9]?\+")


class YamlLayout:
    """The parts of a valid YAML text that the parser discards: comments, blank lines, ends of nodes, aliases and
    anchors.

    Lines count from 0, offsets are those of the tree's spans.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._scalars: list[tuple[int, int]] = []  # where a `#` is text
        self._ends: list[int] = []  # of scalars, aliases and flow collections
        self.anchors: list[int] = []
        self.aliases: list[tuple[int, int]] = []  # offsets of each alias and of its node
        self._read()
        self.comments: dict[int, int] = {}
        for match in _HASH.finditer(text):
            if not self.in_scalar(match.start()):
                self.comments.setdefault(self.line(match.start()), match.start())

    def _read(self) -> None:
        named: dict[str, int] = {}
        flow: list[bool] = []
        event: Any
        for event in yaml.parse(self.text, Loader=yaml.CSafeLoader):
            start, end = event.start_mark.index, event.end_mark.index
            match event:
                case yaml.ScalarEvent():
                    self._scalar(start, end, event.style)
                case yaml.AliasEvent():
                    self.aliases.append((start, named[str(event.anchor)]))
                    self._ends.append(end)
                    continue
                case yaml.CollectionStartEvent():
                    flow.append(bool(event.flow_style))
                case yaml.CollectionEndEvent():
                    if flow.pop():
                        self._ends.append(end)
                case _:
                    pass
            if getattr(event, "anchor", None):
                named[event.anchor] = start
                self.anchors.append(start)

    def _scalar(self, start: int, end: int, style: str | None) -> None:
        if style not in ("|", ">"):
            self._scalars.append((start, end))
        else:  # its header may be followed by a comment, its text by blank lines that are not part of it
            header = self.text.find("\n", start, end)
            if not _KEEPS_BREAKS.search(self.text, start, header):
                end = start + len(_BLANK_END.sub("", self.text[start:end]))
            self._scalars.append((min(header + 1, end) if header >= 0 else end, end))
        self._ends.append(end)

    def in_scalar(self, offset: int) -> bool:
        place = bisect_right(self._scalars, (offset, len(self.text))) - 1
        return place >= 0 and self._scalars[place][0] <= offset < self._scalars[place][1]

    def line(self, offset: int) -> int:
        return bisect_right(self._starts, offset) - 1

    def column(self, offset: int) -> int:
        return offset - self._starts[self.line(offset)]

    def end(self, span: Span) -> int:
        """The end of a node's content: the span of a block collection extends to the next node."""
        return max(span.start, self._ends[bisect_right(self._ends, span.end) - 1])

    def before(self, offset: int) -> str:
        return self.text[self._starts[self.line(offset)] : offset]

    def behind(self, offset: int) -> str:
        return self.text[offset : self._starts[self.line(offset) + 1] - 1]

    def has_no_content(self, line: int) -> bool:
        if line in self.comments and not self.before(self.comments[line]).strip():
            return True
        return not self.lines[line].strip() and not self.in_scalar(self._starts[line])


class _Unit(NamedTuple):
    """A root section or a step. Comments that lost their place are moved above it."""

    origin: int | None
    column: int
    above: list[str]
    lines: list[str]
    is_step: bool = False


class Writer:
    """Writes one tree that was read from `text` and then changed; `old` is the tree as it was read."""

    def __init__(self, text: str, old: Map) -> None:
        self.layout, self.old = YamlLayout(text), old
        self.values = {(span.start, span.end): value for value, span in _nodes(old)}
        metadata, workflow = old["metadata"].span, old["workflow"].span
        self.indent = (_is_block(self.layout, metadata) and self.layout.column(metadata.start)) or 2
        self.dash = self.layout.column(workflow.start) if _is_block(self.layout, workflow) else 2
        self.written_lines: set[int] = set()  # lines whose comment is written
        self.anchored: set[int] = set()  # anchors that are written

    def write(self, root: Map) -> str:
        layout, start = self.layout, self.old.span.start
        first, last = layout.line(start), layout.line(layout.end(self.old.span))
        head = layout.lines[:first]
        self.written_lines.update(range(first))
        if not _is_block(layout, self.old.span) and layout.before(start).strip():
            head.append(layout.before(start).rstrip())
        units = [unit for key in root for unit in self._units(root, key)]
        for line, offset in sorted(layout.comments.items()):
            if first <= line <= last and line not in self.written_lines:  # it lost its place
                home = [unit for unit in units if unit.origin is not None and unit.origin <= line]
                unit = max(home, key=lambda unit: unit.origin or 0)
                unit.above.append(" " * unit.column + layout.behind(offset).rstrip())
        for is_step in (False, True):  # new units are set apart by a blank line where most of their like are
            level = [unit for unit in units if unit.is_step is is_step]
            apart = [unit.above[:1] == [""] for unit in level[1:] if unit.origin is not None]
            for unit in level:
                if unit.origin is None and 2 * sum(apart) > len(apart):
                    unit.above.insert(0, "")
        body = [line for unit in units for line in (*unit.above, *unit.lines)]
        return "\n".join([*head, *body, *layout.lines[last + 1 :]])

    def _units(self, root: Map, key: str) -> Iterator[_Unit]:
        at, _ = root.spans.get(key, (None, None))
        above, origin = self._above(at, 0), None if at is None else self.layout.line(at.start)
        if key != "workflow":
            yield _Unit(origin, 0, above, self._pair(root, key, 0))
            return
        yield _Unit(origin, 0, above, [f"{self._key(root, key)}:{self._beside(at)}"])
        steps: Seq = root[key]
        old_spans = set(self.old[key].spans)
        for i in range(len(steps)):
            span = _item_span(steps, i)
            above = self._above(span, self.dash)
            origin = self.layout.line(span.start) if span is not None and span in old_spans else None
            yield _Unit(origin, self.dash, above, self._item(steps, i, self.dash), is_step=True)

    def _pairs(self, node: Map, column: int) -> tuple[list[str], list[str]]:
        first: list[str] = []
        lines: list[str] = []
        for key in node:
            above = self._above(node.spans.get(key, (None, None))[0], column)
            if lines:
                lines += above
            else:
                first = above
            lines += self._pair(node, key, column)
        return first, lines

    def _pair(self, node: Map, key: str, column: int) -> list[str]:
        (at, span), value, layout = node.spans.get(key, (None, None)), node[key], self.layout
        line = at is not None and not layout.before(at.start).strip(" -") and _COLON.match(layout.text, at.end)
        if line and at and span and self._is_key(at, key) and self._is_unchanged(value, span, at):
            return self._copy(at.start, layout.end(span), layout.column(at.start), column)
        first, *rest = self._value(value, span, column)
        beside = "" if rest and first and first[0] in "'\"" else self._beside(at)
        return [f"{' ' * column}{self._key(node, key)}:{' ' * bool(first)}{first}{beside}", *rest]

    def _key(self, node: Map, key: str) -> str:
        at, _ = node.spans.get(key, (None, None))
        return self.layout.text[at.start : at.end] if at is not None and self._is_key(at, key) else _scalar(key, "")

    def _is_key(self, at: Span, key: str) -> bool:
        return self.layout.text[at.start : at.end].strip("'\"") == key

    def _item(self, seq: Seq, index: int, column: int) -> list[str]:
        value, span = seq[index], _item_span(seq, index)
        inner = column + 2
        if span is not None and self._is_unchanged(value, span):
            lines = self._copy(span.start, self.layout.end(span), self.layout.column(span.start), inner)
            return [f"{' ' * column}- {lines[0].lstrip(' ')}", *lines[1:]]
        if isinstance(value, Map) and value:
            above, lines = self._pairs(value, inner)
            above = [line[2:] if line.startswith("  ") else line for line in above]
            return [*above, f"{' ' * column}- {lines[0].lstrip(' ')}", *lines[1:]]
        first, *rest = self._value(value, span, column)
        return [f"{' ' * column}-{' ' * bool(first)}{first}", *rest]

    def _value(self, value: Any, span: Span | None, column: int) -> list[str]:
        block = isinstance(value, Map | Seq) and value and span is not None and _is_block(self.layout, span)
        if span is not None and self._is_unchanged(value, span) and not block:
            source = self.layout.before(span.start)
            base = len(source) - len(source.lstrip(" -"))
            first, *rest = self._copy(span.start, self.layout.end(span), base, column)
            return [first.lstrip(" "), *rest]
        match value:
            case Map():
                above, lines = self._pairs(value, column + self.indent)
                return ["", *above, *lines] if value else ["{}"]
            case Seq():
                lines = [""]
                for i in range(len(value)):
                    lines += self._above(_item_span(value, i), column + self.dash)
                    lines += self._item(value, i, column + self.dash)
                return lines if value else ["[]"]
            case _:
                return _scalar_lines(value, "" if span is None else span.style, column + self.indent)

    def _is_unchanged(self, value: Any, span: Span, key: Span | None = None) -> bool:
        """True if the source has this value at this place, and it can be copied together with its key.

        That is, every alias in it still has its anchor, and no comment in it is written already.
        """
        place = (span.start, span.end)
        if place not in self.values or _as_json(value) != _as_json(self.values[place]):
            return False
        layout, end = self.layout, self.layout.end(span)
        lines = range(layout.line((key or span).start), layout.line(end))
        if any(line in self.written_lines and line in layout.comments for line in lines):
            return False
        inside = [target for at, target in layout.aliases if span.start <= at < end]
        return all(target in self.anchored or span.start <= target < end for target in inside)

    def _copy(self, start: int, end: int, base: int, column: int) -> list[str]:
        """The lines of a slice, moved from column `base` to `column`, with the comment behind it."""
        layout = self.layout
        self.anchored.update(at for at in layout.anchors if start <= at < end)
        behind = _COMMENT.match(layout.behind(end)) if layout.line(end) in layout.comments else None
        self.written_lines.update(range(layout.line(start), layout.line(end)))
        text = layout.text[start:end].removesuffix("\n")
        if behind and layout.line(end) not in self.written_lines:
            self.written_lines.add(layout.line(end))
            text += behind.group()
        first, *rest = text.split("\n")
        return [" " * column + first, *(_shifted(line, column - base) for line in rest)]

    def _above(self, at: Span | None, column: int) -> list[str]:
        """The comments and blank lines above a key or item, if it is the first text on its line."""
        layout = self.layout
        if at is None or layout.before(at.start).strip(" -"):
            return []
        line = first = layout.line(at.start)
        while first > 0 and layout.has_no_content(first - 1) and first - 1 not in self.written_lines:
            first -= 1
        self.written_lines.update(range(first, line))
        source = layout.before(at.start)
        base = len(source) - len(source.lstrip(" "))
        return [_shifted(text.rstrip(), column - base) for text in layout.lines[first:line]]

    def _beside(self, at: Span | None) -> str:
        if at is None:
            return ""
        layout, line = self.layout, self.layout.line(at.start)
        if line in self.written_lines or line not in layout.comments:
            return ""
        self.written_lines.add(line)
        return "  " + layout.behind(layout.comments[line]).rstrip()


def _nodes(node: Any) -> Iterator[tuple[Any, Span]]:
    if isinstance(node, Map):
        for key, value in node.items():
            yield value, node.spans[key][1]
            yield from _nodes(value)
    elif isinstance(node, Seq):
        for value, span in zip(node, node.spans, strict=True):
            yield value, span
            yield from _nodes(value)


def _item_span(seq: Seq, index: int) -> Span | None:
    span = seq.spans[index] if index < len(seq.spans) else span_of(seq[index])
    return None if span == NOWHERE else span


def _is_block(layout: YamlLayout, span: Span) -> bool:
    return layout.text[span.start] not in "[{*&!"


def _as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _shifted(line: str, by: int) -> str:
    if not line.strip() or by >= 0:
        return " " * by + line if line.strip() else line
    return line[min(-by, len(line) - len(line.lstrip(" "))) :]


def _scalar_lines(value: Any, style: str, column: int) -> list[str]:
    if isinstance(value, str) and ("\n" in value.rstrip("\n") or style in ("|", ">")):
        chomp = "" if value.endswith("\n") and not value.endswith("\n\n") else "+" if value.endswith("\n") else "-"
        lines = value.removesuffix("\n").split("\n")
        printable = all(line.replace("\t", "").isprintable() for line in lines)
        if printable and lines[0].lstrip() == lines[0] != "" and all(line.strip() for line in lines if line):
            folded = style == ">" and len(lines) == 1
            return [(">" if folded else "|") + chomp, *(" " * column + line if line else "" for line in lines)]
    return [_scalar(value, style)]


def _scalar(value: Any, style: str) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    if style not in ("'", '"') and not is_template(value) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    plain = value.isprintable() and "\\" not in value
    if plain and ((style == "'" and "'" not in value) or '"' in value):
        return "'" + value.replace("'", "''") + "'"
    return '"' + "".join(map(_escaped, value)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return char if char.isprintable() else {"\n": "\\n", "\t": "\\t"}.get(char, f"\\U{ord(char):08x}")
