"""Several statements in one text, told apart as psql does it."""

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
    found: list[Sql] = []
    start = 0
    for end in _ends(text, sql.dialect):
        statement = text[start:end].strip(SPACE)
        if any(not token.insignificant for token in tokens(statement, sql.dialect)):
            line = sql.line + text.count("\n", 0, text.index(statement, start))
            found.append(Sql(tuple(_parts(statement, mark, data)), sql.dialect, line))
        start = end + 1
    return found


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
            head.append(written) if len(head) < 4 else None
            blocks = max(0, blocks + _opened(written, blocks, head))
        elif token.kind == "symbol":
            brackets = max(0, brackets + (written == "(") - (written == ")"))
            if written == ";" and not brackets and not blocks:
                yield token.start
                head = []
    yield len(text)


def _opened(word: str, blocks: int, head: list[str]) -> int:
    """How a word changes the number of open blocks of a routine's body."""
    if head[0] != "CREATE" or not {"FUNCTION", "PROCEDURE"} & set(head):
        return 0
    return (word == "BEGIN" or (word == "CASE" and blocks > 0)) - (word == "END")


def first_words(sql: Sql, count: int = 3) -> tuple[str, ...]:
    """The first words of a statement in upper case."""
    text, _ = marked(sql)
    found: list[str] = []
    for token in tokens(text, sql.dialect):
        if token.kind == "word" and len(found) < count:
            found.append(text[token.start : token.end].upper())
        elif not token.insignificant and (found or text[token.start] != "("):
            break
    return tuple(found)


def is_quoted(sql: Sql) -> bool:
    """Whether a value or name stands inside a string, a quoted name or a comment, where it would not be read as one.

    Never so in what `prepare_sql` gives; for texts whose placeholders somebody else has found.
    """
    text, mark = marked(sql)
    return any(
        token.kind != "mark" and mark in text[token.start : token.end] for token in tokens(text, sql.dialect, mark)
    )
