"""Splits a text into its statements by the rules of psql."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.sql.lexing import Dialect, tokens, unused_character
from noetl.sql.parts import Part, Sql

SPACE = " \t\n\r\f\v"


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
        statement = text[start:end].strip(SPACE)
        if any(not token.insignificant for token in tokens(statement, sql.dialect)):
            line = sql.line + text.count("\n", 0, text.index(statement, start))
            split.append(Sql(tuple(_parts(statement, mark, data)), sql.dialect, line))
        start = end + 1
    return split


def _parts(statement: str, mark: str, data: Iterator[Part]) -> Iterator[Part]:
    first, *others = statement.split(mark)
    if first:
        yield first
    for text in others:
        yield next(data)
        if text:
            yield text


def _ends(text: str, dialect: Dialect) -> Iterator[int]:
    """Where statements end: at a semicolon outside brackets and outside the body of a routine, and at the end.

    `CREATE FUNCTION ... BEGIN ATOMIC ...; END` has semicolons inside, and `CASE ... END` may be among them.
    """
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
    """The first words of a statement in upper case."""
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
    return any(
        token.kind != "mark" and mark in text[token.start : token.end] for token in tokens(text, sql.dialect, mark)
    )
