"""Completion and hover at a position of a playbook's text, for the web page and for language servers.

    assist(text, 12, 9, kinds).completions

A pure function. The text may be broken at the cursor, and is as untrusted as any other: the work is linear in its size,
which `dsl.reader` limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from noetl.assist.completion import Assist, Completion, CompletionKind, Hover, Position
from noetl.assist.expressions import VisibleNames, fragment_before, step_names, task_labels
from noetl.assist.loose_reader import CursorSite, read_loosely
from noetl.assist.names import DocumentNames
from noetl.assist.places import Expected, KeyEntry, KindName, Language, PipelineItem
from noetl.classic.detect import is_classic
from noetl.classic.nodes import as_map
from noetl.dsl.part_shapes import PipelineShape, TaskShape
from noetl.dsl.reader import MAX_BYTES
from noetl.dsl.shape import Fields, KindSource, ListOf
from noetl.dsl.tree import Map, Mark, Seq, Text

MAX_COMPLETIONS = 200
STEP_REFERENCES = frozenset(
    [("an arc", "step"), ("a target", "step"), ("executor.spec", "entry_step"), ("executor.spec", "final_step")]
)
"""Keys whose value is the name of a step, each with its part."""

_BEFORE = re.compile(r"[\w.-]*\Z")
_AFTER = re.compile(r"[\w.-]*")
_COLON = re.compile(r"['\"]?[ \t]*:")


def assist(text: str, line: int, column: int, kinds: KindSource) -> Assist:
    """Completions and hover at a line and column, which count from 1; empty where the language has nothing to offer."""
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return Assist()
    lines = Text("", text)
    cursor = lines.offset(Mark(line, column))
    root, site = read_loosely(text, cursor)
    if site is None:
        return Assist()
    context = _CursorContext(lines, cursor, site, root, kinds)
    return Assist(_selected(context.completions(), context.word), context.hover())


def _selected(completions: Iterable[Completion], word: str) -> list[Completion]:
    selected: dict[tuple[str, str], Completion] = {}
    for completion in completions:
        if completion.label.lower().startswith(word.lower()):
            selected.setdefault((completion.label, completion.kind), completion)
        if len(selected) == MAX_COMPLETIONS:
            break
    return list(selected.values())


class _CursorContext:
    """The place of the cursor in its document."""

    def __init__(self, lines: Text, cursor: int, site: CursorSite, root: Map, kinds: KindSource) -> None:
        self.lines, self.text, self.cursor, self.site = lines, lines.text, cursor, site
        classic = is_classic(root)
        self.language, self.names = Language(kinds, classic=classic), DocumentNames(root)
        self.scope = VisibleNames(site.path, self.names, kinds, classic=classic)
        self.fragment = None if site.role == "key" else fragment_before(self.text, site.start, cursor)
        before = _BEFORE.search(self.text[max(site.start, cursor - 200) : cursor])
        self.word = self.fragment.word if self.fragment else before[0] if before else ""

    @cached_property
    def node(self) -> Any:
        """The node at the cursor, or the map whose key is at the cursor."""
        if not self.site.path:
            return Map()
        last = self.site.path[-1]
        return last.node if last.key is None else last.value

    @cached_property
    def expected(self) -> list[Expected]:
        return self.language.at(self.site.path)

    def completions(self) -> Iterator[Completion]:
        if self.fragment is not None:
            yield from self.scope.completions(self.fragment)
        elif self.site.role == "key" or isinstance(self.node, Map):
            yield from self._keys(self.language.options(self.expected, self.node), self.node, "")
        elif self.site.role == "value":
            yield from self._values()
        elif self.site.role == "item" or isinstance(self.node, Seq):
            expected = self.expected if self.site.role == "item" else list(self._items(self.expected))
            yield from self._keys(self.language.options(expected, None), Map(), "- ")
        else:
            options = self.language.options(self.expected, None)
            yield from self._values()
            yield from self._keys(options, Map(), "")
            yield from self._keys(self.language.options(self._items(options), None), Map(), "- ")

    def _items(self, options: Iterable[Expected]) -> Iterator[Expected]:
        for option in options:
            if isinstance(option, ListOf):
                yield option.item
            elif isinstance(option, PipelineShape):
                yield PipelineItem(option.task)

    def _keys(self, options: Iterable[Expected], node: Any, prefix: str) -> Iterator[Completion]:
        written = set(node) if isinstance(node, Map) else set()
        has_colon = self.site.role == "key" and _COLON.match(self.text, self.site.end)
        for option in options:
            for entry in self.language.keys(option, node):
                if entry.key not in written or entry.key == self._own_key():
                    ending = "" if has_colon else ":" if entry.is_container else ": "
                    insert = f"{prefix}{entry.key}{ending}"
                    yield Completion(entry.key, "key", entry.words, insert, entry.doc)

    def _own_key(self) -> str:
        return self.text[self.site.start : self.site.end].strip("'\"")

    def _values(self) -> Iterator[Completion]:
        yield from self._references()
        for option in self.language.options(self.expected, None):
            kind: CompletionKind = "kind" if isinstance(option, KindName) else "value"
            for value in self.language.values(option):
                yield Completion(value.text, kind, "", value.text, value.doc)

    def _references(self) -> Iterator[Completion]:
        """Names of the document that this value may be."""
        if not self.site.path:
            return
        path, (node, key) = self.site.path[:-1], self.site.path[-1]
        owners = self.language.options(self.language.at(path), node)
        parts = {owner.part for owner in owners if isinstance(owner, Fields)}
        if any((part, key) in STEP_REFERENCES for part in parts) or self._is_target():
            yield from step_names(self.names)
        elif "then" in parts and key == "to":
            yield from task_labels(self.scope.labels)
        elif key == "auth":
            yield from (Completion(name, "credential", "", name, "") for name in self.names.keychain)
        elif key == "name" and TaskShape in map(type, owners) and as_map(node).get("kind") == "workbook":
            yield from (Completion(name, "task", "", name, "") for name in self.names.workbook)

    def _is_target(self) -> bool:
        """Whether the value is the target of a classic `next`."""
        keys = [part.key for part in self.site.path if isinstance(part.key, str)]
        return self.language.classic and keys[:1] == ["workflow"] and keys[-1:] in (["next"], ["to"])

    def hover(self) -> Hover | None:
        after = _AFTER.match(self.text, self.cursor, self.cursor + 200)
        end = after.end() if after else self.cursor
        start = self.cursor - len(self.word)
        word = self.text[start:end]
        if self.fragment is not None:
            end = start + len(self.text[start:end].partition(".")[0].partition("-")[0])
            fragment = self.fragment._replace(word=self.text[start:end])
            text = self.scope.meaning(fragment)
        elif self.site.role == "key":
            start, end = self.site.start, self.site.end
            text = self._key_meaning(self._own_key())
        else:
            text = self._value_meaning(word)
        if not text or end <= start:
            return None
        return Hover(Position(*self.lines.mark(start)), Position(*self.lines.mark(end)), text)

    def _key_meaning(self, key: str) -> str:
        options = self.language.options(self.expected, self.node)
        entries = (entry for option in options for entry in self.language.keys(option, self.node))
        return next((_description(entry) for entry in entries if entry.key == key), "")

    def _value_meaning(self, word: str) -> str:
        completion = next((value for value in self._values() if value.label == word), None)
        return "" if completion is None else completion.doc or completion.detail


def _description(entry: KeyEntry) -> str:
    return "\n\n".join(part for part in (f"{entry.key}: {entry.words}", entry.doc) if part)
