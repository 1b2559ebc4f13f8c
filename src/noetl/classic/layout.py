"""The layout of a YAML text, which its parser discards: comments, blank lines, ends of nodes, aliases and anchors.

`writer.py` needs it to change a part of a text and leave the rest unchanged.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any

import yaml

from noetl.dsl.tree import Span

_HASH = re.compile(r"(?:^|(?<=[ \t]))#", re.MULTILINE)
_BLANK_END = re.compile(r"(?:\n[ \t]*)+\Z")
_KEEPS_BREAKS = re.compile(r"[|>][0-9]?\+")


class YamlLayout:
    """The lines of a valid YAML text. Lines count from 0, offsets are those of the tree's spans."""

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
        self.comments = self._find_comments()
        """By line, the offset of its comment."""

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

    def _find_comments(self) -> dict[int, int]:
        comments: dict[int, int] = {}
        for match in _HASH.finditer(self.text):
            line = self.line(match.start())
            if line not in comments and not self.in_scalar(match.start()):
                comments[line] = match.start()
        return comments

    def in_scalar(self, offset: int) -> bool:
        place = bisect_right(self._scalars, (offset, len(self.text))) - 1
        return place >= 0 and self._scalars[place][0] <= offset < self._scalars[place][1]

    # -- places -----------------------------------------------------------------------------------------------------

    def line(self, offset: int) -> int:
        return bisect_right(self._starts, offset) - 1

    def column(self, offset: int) -> int:
        return offset - self._starts[self.line(offset)]

    def end(self, span: Span) -> int:
        """The end of a node's content: the span of a block collection extends to the next node."""
        return max(span.start, self._ends[bisect_right(self._ends, span.end) - 1])

    def before(self, offset: int) -> str:
        """The text before the offset on its line."""
        return self.text[self._starts[self.line(offset)] : offset]

    def behind(self, offset: int) -> str:
        """The text after the offset on its line."""
        return self.text[offset : self._starts[self.line(offset) + 1] - 1]

    def is_comment(self, line: int) -> bool:
        return line in self.comments and not self.before(self.comments[line]).strip()

    def has_no_content(self, line: int) -> bool:
        """Whether the line is blank or has only a comment."""
        if self.is_comment(line):
            return True
        return not self.lines[line].strip() and not self.in_scalar(self._starts[line])
