"""SQL whose data is still data: texts, values and names. Its text for a driver, and its statements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from noetl.sql.lexing import STANDARD, SqlDialect, tokens, unused_character


class Value(NamedTuple):
    """None, a boolean, a number, text, bytes, a list (an array) or a map (JSON)."""

    value: Any


class Identifier(NamedTuple):
    """A name of one or more parts, each to be quoted by itself: `("shop", "orders")` is `"shop"."orders"`."""

    names: tuple[str, ...]


class InList(NamedTuple):
    """`IN (...)` or `NOT IN (...)` as a whole, brackets included. An item that is a list is a row of values."""

    items: tuple[Any, ...]
    negated: bool


Part: TypeAlias = str | Value | Identifier | InList


class Sql(NamedTuple):
    parts: tuple[Part, ...]
    dialect: SqlDialect = STANDARD
    line: int = 1
    """The line of the whole text that this begins on."""
    source: str = ""
    """The author's text, with its templates."""


class Empty(NamedTuple):
    """The SQL for `IN` and `NOT IN` with an empty list: one is never true, the other always."""

    never: str = "IN (SELECT NULL WHERE FALSE)"
    always: str = "NOT IN (SELECT NULL WHERE FALSE)"


STANDARD_EMPTY = Empty()


TAGS = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
DATA = "\0"
"""Stands for templates and their values; no SQL has this character."""


class SqlPlace(NamedTuple):
    """A line and a column of the author's SQL, from 1, and the part there."""

    line: int
    column: int
    part: Part | None


class WrittenSql(NamedTuple):
    parts: list[tuple[Part, str]]
    line: int
    source: str

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.parts)

    def place(self, position: int) -> SqlPlace:
        """The place of a position (from 1) of the text; for a value, the end of the author's text before it."""
        before, after, end, place_part = "", "", 0, None
        for part, text in self.parts:
            begin, end = end, end + len(text)
            own = part if isinstance(part, str) else DATA
            if position <= end:
                place_part = part
                offset = max(0, position - 1 - begin - len(text) + len(own)) if own is part else 0
                before, after = before + own[:offset], own[offset:].partition("\n")[0] if own is part else ""
                break
            before += own
        texts = (before.rpartition("\n")[2] + after).split(DATA)
        offset = len(texts[-1]) - len(after)
        return self._located(self.line + before.count("\n"), texts, offset, place_part)

    def _located(self, line: int, texts: list[str], offset: int, part: Part | None) -> SqlPlace:
        """The line of the source that has these texts in this order; of several, the one nearest to `line`: control
        flow leaves out lines and repeats others."""
        lines = TAGS.sub(lambda tag: re.sub("[^\n]", DATA, tag[0]), self.source).split("\n")
        columns = ((number, _last_text(text, texts)) for number, text in enumerate(lines, start=1))
        near = min(((abs(number - line), number, column) for number, column in columns if column >= 0), default=None)
        return SqlPlace(line, 1, part) if near is None else SqlPlace(near[1], near[2] + offset + 1, part)


def _last_text(line: str, texts: list[str]) -> int:
    """Where the last of the texts begins in a line that has them in this order; -1 if it lacks one of them."""
    begin = end = 0
    for text in texts:
        if (begin := line.find(text, end)) < 0:
            break
        end = begin + len(text)
    return begin


def write(sql: Sql, value: Callable[[Any], str], *, empty: Empty = STANDARD_EMPTY) -> str:
    """The text for a driver. `value` renders each value, in order, as a placeholder or a literal."""
    return written(sql, value, empty=empty).text


def written(sql: Sql, value: Callable[[Any], str], *, empty: Empty = STANDARD_EMPTY) -> WrittenSql:
    loose = " \t\n\r\f\v()[],;:"
    parts: list[tuple[Part, str]] = []
    for part, following in zip(sql.parts, (*sql.parts, "")[1:], strict=True):
        match part:
            case str():
                text = part
            case Value(content):
                text = value(content)
            case Identifier(names):
                text = quoted(*names)
            case InList((), negated):
                text = empty.always if negated else empty.never
            case InList(items, negated):
                rows = (f"({', '.join(map(value, item))})" if isinstance(item, list) else value(item) for item in items)
                text = f"{'NOT ' if negated else ''}IN ({', '.join(rows)})"
        is_cast = isinstance(following, str) and following.lstrip().startswith("::")
        if text.startswith("-") and is_cast and not isinstance(part, str):
            text = f"({text})"  # -1::text would be -(1::text)
        before, text_before = parts[-1] if parts else ("", "")
        is_data = not (isinstance(before, str) and isinstance(part, str))
        if is_data and text_before[-1:] not in loose and text[:1] not in loose:
            text = f" {text}"  # without a space both might be read as one token
        parts.append((part, text))
    return WrittenSql(parts, sql.line, sql.source)


def simple_literal(value: bool | int | None) -> str:
    return "NULL" if value is None else str(value).upper()


def quoted(*names: str) -> str:
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def marked(sql: Sql) -> tuple[str, str]:
    """The text with a mark in place of each value or name, and the mark."""
    mark = unused_character("".join(part for part in sql.parts if isinstance(part, str)))
    return "".join(part if isinstance(part, str) else mark for part in sql.parts), mark


def statements(sql: Sql) -> list[Sql]:
    """The statements of a text, without semicolons and without empty ones."""
    text, mark = marked(sql)
    data = iter([part for part in sql.parts if not isinstance(part, str)])
    split: list[Sql] = []
    start = 0
    for end in _ends(text, sql.dialect):
        statement = text[start:end].strip(" \t\n\r\f\v")
        if any(not token.insignificant for token in tokens(statement, sql.dialect)):
            line = sql.line + text.count("\n", 0, text.index(statement, start))
            first, *others = statement.split(mark)
            parts = [first, *(part for following in others for part in (next(data), following))]
            split.append(sql._replace(parts=tuple(part for part in parts if part != ""), line=line))
        start = end + 1
    return split


def _ends(text: str, dialect: SqlDialect) -> Iterator[int]:
    """Where statements end: at a semicolon outside brackets and outside the body of a routine, and at the end. `CREATE
    FUNCTION ... BEGIN ATOMIC ...; END` has semicolons inside, and `CASE ... END` may be among them."""
    brackets = blocks = 0
    head: list[str] = []
    for token in tokens(text, dialect):
        if token.insignificant:
            continue
        written = text[token.start : token.end].upper()
        if token.kind == "word":
            if len(head) < 4:
                head.append(written)
            if head[0] == "CREATE" and {"FUNCTION", "PROCEDURE"} & set(head):
                opens = written == "BEGIN" or (written == "CASE" and blocks > 0)
                blocks = max(0, blocks + opens - (written == "END"))
        elif token.kind == "symbol":
            brackets = max(0, brackets + (written == "(") - (written == ")"))
            if written == ";" and not brackets and not blocks:
                yield token.start
                head = []
    yield len(text)


def first_words(sql: Sql, count: int = 3) -> tuple[str, ...]:
    text, _ = marked(sql)
    words: list[str] = []
    for token in tokens(text, sql.dialect):
        if token.kind == "word" and len(words) < count:
            words.append(text[token.start : token.end].upper())
        elif not token.insignificant and (words or text[token.start] != "("):
            break
    return tuple(words)


def is_quoted(sql: Sql) -> bool:
    """Whether a value or name is inside a string, a quoted name or a comment, where it would not be read as one.
    `prepare_sql` never returns such SQL; the placeholders of `params` may cause it."""
    text, mark = marked(sql)
    quoting = (token for token in tokens(text, sql.dialect, mark) if token.kind != "mark")
    return any(mark in text[token.start : token.end] for token in quoting)
