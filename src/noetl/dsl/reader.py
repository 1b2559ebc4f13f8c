"""Reads untrusted text as a tree.

Limits are counted on parser events, before anything is composed: the C composer crashes the process on deep nesting,
its parser does not. Scalars follow the YAML 1.2 core schema, so `on`, `no` and `12:30:00` stay strings. Anchors,
aliases and merge keys work, but count as what they expand to. Any input results in a tree or in problems.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite
from typing import Any, NamedTuple, NoReturn

import msgspec
import yaml

from noetl.dsl.problem import Check, Problems, hint_names, replacing
from noetl.dsl.tree import NOWHERE, Map, Seq, Span, Text, plain
from noetl.errors import UsageError
from noetl.expression import kind_of
from noetl.json_errors import NOT_JSON

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
MAX_NODES = 50_000

ENCODING = Check("NTL001", "error", "the text is not readable", stored_ok=False)
SYNTAX = Check("NTL002", "error", "the YAML does not parse", stored_ok=False)
TOO_LARGE = Check("NTL003", "error", "the document is too large", stored_ok=False)
DUPLICATE_KEY = Check("NTL004", "error", "a map has the same key twice", stored_ok=False)
RECURSIVE = Check("NTL005", "error", "an alias contains itself or does not exist", stored_ok=False)
UNQUOTED = Check("NTL006", "error", "a template is not quoted", stored_ok=False)
NOT_A_MAP = Check("NTL007", "error", "the document is not one map", stored_ok=False)
BAD_KEY = Check("NTL008", "error", "a key is not plain text", stored_ok=False)
BAD_VALUE = Check("NTL009", "error", "a value cannot be represented", stored_ok=False)
BIDI = Check("NTL011", "warning", "a bidirectional control character reorders the text")

_CONSTANTS = {
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **dict.fromkeys(["true", "True", "TRUE"], True),
    **dict.fromkeys(["false", "False", "FALSE"], False),
}
_TAGGED = {"int": (int, float), "float": (int, float), "bool": (bool,), "null": (type(None),)}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_NUMBER_START = frozenset("0123456789+-.")
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_BIDI = re.compile(r"[\u202a-\u202e\u2066-\u2069].*")  # with the rest of its line
_BARE_TEMPLATE = re.compile(r"^(?:[^'\"#]*(?:[:\-?]\s+|[,\[]\s*))?\s*(\{[{%])")
_TAG_DIRECTIVE = re.compile(r"^%TAG", re.MULTILINE)
_TAG = "tag:yaml.org,2002:"
_MOVE_OUT = "move data out of the playbook: into a file, a table, or the request's payload"


class _Stop(Exception):
    """Reading cannot continue; the problem is recorded."""


def read(file: str, data: bytes | str) -> tuple[Map | None, Problems]:
    """The document's root, or None where it cannot be read, and the problems."""
    root, problems = _read(file, data)
    if isinstance(root, Map):
        return root, problems
    if not problems.count():
        content = "empty" if root is None else f"{kind_of(root)}, not a map"
        problems.add(NOT_A_MAP, 0, f"the document is {content}", "start with `apiVersion: noetl.io/v2`")
    return None, problems


def read_data(data: bytes | str) -> Any:
    """The value of a text that is JSON, or YAML as in playbooks; UsageError says where it is neither."""
    try:
        return msgspec.json.decode(data)
    except NOT_JSON:
        value, problems = _read("", data)
    if fault := next((problem for problem in problems.sorted() if problem.severity == "error"), None):
        raise UsageError(f"neither JSON nor YAML: line {fault.line}, column {fault.column}: {fault.message}")
    return plain(value)


def _read(file: str, data: bytes | str) -> tuple[Any, Problems]:
    text, problem = _decode(data)
    problems = Problems(Text(file, text))
    if problem is not None:
        problems.add(*problem)
        return None, problems
    if not text.isascii():
        from unicodedata import name  # rarely needed and not free to import

        for match in _BIDI.finditer(text):
            character = match[0][0]
            code = f"{ord(character):04x}"
            message = f"U+{code.upper()} ({name(character).lower()}) changes the order in which this line is shown"
            problems.add(BIDI, match.start(), message, f'remove it, or write "\\u{code}" in a double-quoted string')
    try:
        return _Composer(text, problems).compose(), problems
    except _Stop:
        return None, problems


def _decode(data: bytes | str) -> tuple[str, tuple[Check, int, str, str | None] | None]:
    size = len(data) if isinstance(data, bytes) else len(data.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        text = data[:4096] if isinstance(data, str) else data[:4096].decode("utf-8", "replace")
        message = f"the text has {size:,} bytes, more than {MAX_BYTES:,}"
        return text, (TOO_LARGE, 0, message, _MOVE_OUT)
    if isinstance(data, str):
        text = data
    else:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            good = data[: error.start].decode("utf-8")
            replaced = data.decode("utf-8", "replace")
            message = f"byte 0x{data[error.start]:02x} is not valid UTF-8"
            return replaced, (ENCODING, len(good), message, "save the file as UTF-8")
    text = text.removeprefix("\ufeff")
    if match := _FORBIDDEN.search(text):
        message = f"the text contains the control character U+{ord(match.group()):04X}"
        return text, (ENCODING, match.start(), message, "remove it, or write it as an escape in double quotes")
    if match := _TAG_DIRECTIVE.search(text):  # of no use without tags, and the parser compares each with all others
        return text, (BAD_VALUE, match.start(), "`%TAG` is not allowed", "remove the line")
    return text, None


class _Open(msgspec.Struct):
    """A map or list that is still being read. Weight and height count the nodes and levels below, aliases expanded."""

    node: Map | Seq
    anchor: str | None
    wants_key: bool
    key: str = ""
    key_span: Span = NOWHERE
    own: dict[str, Span] = {}  # keys of the map itself, not of one that it merges
    bare_template: bool = False
    weight: int = 1
    height: int = 1


class _Anchored(NamedTuple):
    node: Any
    weight: int = 1
    height: int = 1


class _Composer:
    def __init__(self, text: str, problems: Problems) -> None:
        self.text = text
        self.problems = problems
        self.stack: list[_Open] = []
        self.anchors: dict[str, _Anchored | None] = {}  # None while it is still open
        self.nodes = 0
        self.root: Any = None

    def compose(self) -> Any:
        handlers: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: self._open,
            yaml.SequenceStartEvent: self._open,
            yaml.MappingEndEvent: self._close,
            yaml.SequenceEndEvent: self._close,
            yaml.AliasEvent: self._alias,
        }
        documents = 0
        try:
            next_event = yaml.CSafeLoader(self.text).get_event
            while (event := next_event()) is not None:
                handler = handlers.get(type(event))
                if handler is not None:
                    handler(event)
                elif isinstance(event, yaml.DocumentStartEvent):
                    documents += 1
                    if documents > 1:
                        mark: Any = event.start_mark
                        self._fail(NOT_A_MAP, mark.index, "a second document starts here", "keep one per file")
        except yaml.MarkedYAMLError as error:
            self._syntax(error)
        except yaml.YAMLError as error:
            where = getattr(error, "position", 0)
            self._fail(ENCODING, where if isinstance(where, int) else 0, "the text cannot be read as YAML")
        return self.root

    def _fail(self, check: Check, where: Span | int, message: str, hint: str | None = None) -> NoReturn:
        self.problems.add(check, where, message, hint)
        raise _Stop

    def _syntax(self, error: yaml.MarkedYAMLError) -> None:
        mark: Any = error.problem_mark or error.context_mark
        at = mark.index if mark is not None else 0
        if self.text[at : at + 1] == "\t":
            self._fail(SYNTAX, at, "a tab cannot indent YAML", "indent with spaces")
        line = self.problems.text.mark(at).line
        for number in (line, max(line - 1, 1)):  # `url: {{ host }}/path` is the commonest YAML error in playbooks
            text = self.problems.text.line(number)
            if match := _BARE_TEMPLATE.search(text):
                start = sum(len(before) + 1 for before in self.text.split("\n")[: number - 1]) + match.start(1)
                self._fail(UNQUOTED, *self._unquoted(start))
        problem = error.problem or "the YAML does not parse"
        if "cannot start any token" in problem:
            self._fail(SYNTAX, at, f"plain text cannot begin with `{self.text[at]}`", "put the text in quotes")
        before = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        if before[-1:] in _QUOTES and before.rfind("{{") > before.rfind("}}"):
            quote, other = before[-1], _QUOTES[before[-1]]
            message = f"the {quote} in the template ends the text"
            self._fail(SYNTAX, at - 1, message, f"write {other} in the template, or around the text")
        if "mapping values" in problem and line > 1 and (match := _NO_SPACE.fullmatch(self.text.split("\n")[line - 2])):
            start = sum(len(text) + 1 for text in self.text.split("\n")[: line - 2]) + match.start(1)
            advice = f"write `{match[1]}: {match[2][:40]}`"
            self._fail(SYNTAX, start, f"a space is missing after `{match[1]}:`", advice)
        _, words, hint = next((row for row in _ADVICE if row[0] in problem), ("", "", None))
        message = words or problem
        if error.context and error.context_mark is not None:
            opened: Any = error.context_mark
            if "quoted scalar" in error.context:  # the text ran on to some later place: show where it began
                quote = self.text[opened.index : opened.index + 1]
                self._fail(SYNTAX, opened.index, "this quote is never closed", f"add the closing {quote}")
            started = self.problems.text.mark(opened.index)
            for context, part, remedy in _MISALIGNED:
                if context in error.context and not words:
                    message = (
                        f"this line does not fit {part} that starts at line {started.line}, column {started.column}"
                    )
                    self._fail(SYNTAX, at, message, remedy.format(spaces=started.column - 1))
        self._fail(SYNTAX, at, message, hint)

    def _count(self, weight: int, height: int, at: int) -> None:
        self.nodes += weight
        if self.nodes > MAX_NODES:
            message = f"more than {MAX_NODES:,} nodes (aliases count as what they expand to)"
            self._fail(TOO_LARGE, at, message, _MOVE_OUT)
        if len(self.stack) + height > MAX_DEPTH:
            self._fail(TOO_LARGE, at, f"nested more than {MAX_DEPTH} levels deep", "make it flatter")

    def _open(self, event: Any) -> None:
        start = event.start_mark.index
        self._count(1, 1, start)
        is_map = isinstance(event, yaml.MappingStartEvent)
        if event.tag and event.tag not in (_TAG + "map", _TAG + "seq"):
            self._fail(BAD_VALUE, start, f"the tag {event.tag!r} is not allowed", "remove the tag")
        span = Span(start, event.end_mark.index)
        if event.anchor:
            self.anchors[event.anchor] = None
        self.stack.append(_Open(Map(span) if is_map else Seq(span), event.anchor, wants_key=is_map))

    def _close(self, event: Any) -> None:
        top = self.stack.pop()
        start = top.node.span.start
        top.node.span = span = Span(start, event.end_mark.index)
        node: Any = top.node
        if top.bare_template:  # reported; continue as if it had been quoted, to find further problems
            node, top.weight, top.height = self.text[span.start : span.end], 1, 1
        if top.anchor:
            self.anchors[top.anchor] = _Anchored(node, top.weight, top.height)
        self._add(node, span, top.weight, top.height)

    def _alias(self, event: Any) -> None:
        start = event.start_mark.index
        if event.anchor not in self.anchors:
            anchors = hint_names(tuple(self.anchors))
            self._fail(RECURSIVE, start, f"unknown anchor {event.anchor!r}", f"anchors before this line: {anchors}")
        anchored = self.anchors[event.anchor]
        if anchored is None:
            hint = "refer to an anchor that ends before it"
            self._fail(RECURSIVE, start, f"the alias {event.anchor!r} is inside its own anchor", hint)
        self._count(anchored.weight, anchored.height, start)
        self._add(anchored.node, Span(start, event.end_mark.index), anchored.weight, anchored.height)

    def _scalar(self, event: Any) -> None:
        start = event.start_mark.index
        self._count(1, 1, start)
        span = Span(start, event.end_mark.index, event.style or "")
        value: Any = event.value
        is_key = bool(self.stack) and self.stack[-1].wants_key  # keys are text as it was written
        tag = event.tag.removeprefix(_TAG) if event.tag and event.tag != "!" and not is_key else None
        if tag is None and event.implicit[0] and not event.tag and not is_key:
            value = self._resolved(value, span)
        elif tag is not None and tag != "str":
            value = self._resolved(value, span) if tag in _TAGGED else None
            if type(value) not in _TAGGED.get(tag, ()):
                hint = "remove the tag, or quote the value"
                self._fail(BAD_VALUE, span, f"the tag {event.tag!r} is not allowed here", hint)
            value = float(value) if tag == "float" else value
        if event.anchor:
            self.anchors[event.anchor] = _Anchored(value)
        self._add(value, span, 1, 1)

    def _add(self, value: Any, span: Span, weight: int, height: int) -> None:
        if not self.stack:
            self.root = value
            return
        top = self.stack[-1]
        top.weight += weight
        if height >= top.height:
            top.height = height + 1
        if top.wants_key:
            self._key(top, value, span)
        elif isinstance(top.node, Seq):
            top.node.append(value)
            top.node.spans.append(span)
        else:
            key, top.wants_key = top.key, True
            if key == "<<" and top.key_span.style == "":
                self._merge(top, value, span)
            else:
                top.node.put(key, value, top.key_span, span)

    def _key(self, top: _Open, key: Any, span: Span) -> None:
        if isinstance(key, Map | Seq):
            if not self.text.startswith("{{", span.start - 1):
                for start in (container.node.span.start for container in self.stack):
                    if self.text.startswith("{{", start):  # `{{ {'a': 1} }}` without quotes: a map inside two others
                        self._fail(UNQUOTED, *self._unquoted(start))
                self._fail(BAD_KEY, span, f"{kind_of(key)} cannot be a key", "write a key of plain text, or quote it")
            start = span.start - 1
            self.problems.add(UNQUOTED, *self._unquoted(start))
            key, top.bare_template = "{{", True
        elif not isinstance(key, str):  # an alias of one
            self._fail(BAD_KEY, span, f"{kind_of(key)} cannot be a key", "write a key of plain text, or quote it")
        if key in top.own:
            first = self.problems.text.mark(top.own[key].start).line
            hint = "merge a list: `<<: [*one, *two]`" if key == "<<" else "remove one of them"
            self.problems.add(DUPLICATE_KEY, span, f"duplicate key {key[:60]!r}, first used at line {first}", hint)
        top.own.setdefault(key, span)
        top.key, top.key_span, top.wants_key = key, span, False

    def _unquoted(self, start: int) -> tuple[Span, str, str]:
        """Range, message and hint for the value that begins with a template at an offset."""
        value = self.text[start : start + 200].partition("\n")[0].partition(" #")[0].strip().rstrip(",]")
        quote = "'" if '"' in value and "'" not in value else '"'
        quoted = f"{quote}{value[:80]}{quote}"
        hint = f"write {quoted}" if len(value) > 80 else replacing(f"write {quoted}", quoted)
        return Span(start, start + max(len(value), 1)), "a template must be quoted", hint

    def _merge(self, top: _Open, source: Any, where: Span) -> None:
        """Put in the keys of other maps, at `<<`. The map's own keys win, then the first of several maps."""
        assert isinstance(top.node, Map)
        for other in source if isinstance(source, Seq) else [source]:
            if not isinstance(other, Map):
                self._fail(BAD_VALUE, where, "`<<` merges a map or a list of maps", "refer to a map by its alias")
            for key in other:
                if key not in top.node:
                    top.node.put(key, other[key], *other.spans[key])

    def _resolved(self, text: str, span: Span) -> Any:
        try:
            return resolve(text)
        except ValueError as error:
            self._fail(BAD_VALUE, span, str(error), "quote the value")


def resolve(text: str) -> Any:
    """A plain scalar's value by the YAML 1.2 core schema; ValueError if JSON has no such value."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _NUMBER_START:
        return text
    if _INT.fullmatch(text):
        digits = text.lstrip("+-").lstrip("0") or "0"  # Python refuses to read very many of them
        number = int(text, 0) if text[:2] in ("0o", "0x") else int(digits) if len(digits) < 20 else 1 << 64
        number = -number if text[0] == "-" else number
        if not -(1 << 63) <= number < 1 << 63:
            raise ValueError("the number does not fit 64 bits")
        return number
    if _FLOAT.fullmatch(text):
        if not isfinite(float(text)):
            raise ValueError("the number is too large")
        return float(text)
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is not a finite number")
    return text


_MISALIGNED = (
    (
        "block collection",
        "the list",
        "start each item with `- ` after {spaces} spaces, and indent its keys by two more",
    ),
    (
        "block mapping",
        "the map",
        "indent its keys by {spaces} spaces, like the first one, and what belongs to a key by more",
    ),
    ("flow mapping", "the map in braces", "put a comma between its entries, and close it with }}"),
    ("flow sequence", "the list in brackets", "put a comma between its items, and close it with ]"),
)
"""By the context of the parser: the part of the document, and the form of its lines."""
_QUOTES = {"'": '"', '"': "'"}  # each with the other one
_NO_SPACE = re.compile(r"\s*(?:- +)*([A-Za-z_]\w*):([^\s:/].*)")  # a line such as `- step:start`
_INDENTATION = "check the indentation and the quotes of this line and the one before"
_COLON = "quote the text if the `:` belongs to it, or check the indentation"
_ADVICE = (
    ("could not find expected ':'", "a `:` is missing", "write `key: value`; quote text that spans lines"),
    ("mapping values are not allowed", "unexpected `:`", _COLON),
    ("did not find expected", "", _INDENTATION),
    ("expected <block end>", "", _INDENTATION),
    ("unexpected end of stream", "", "a quote or bracket is not closed"),
    ("while scanning a quoted scalar", "", "a quote or bracket is not closed"),
)
