"""An SQL text for a driver: values as placeholders or literals, names quoted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from noetl.sql.parts import Identifier, InList, Part, Sql, Value


class Empty(NamedTuple):
    """The SQL for `IN` and `NOT IN` with an empty list: one is never true, the other always."""

    never: str = "IN (SELECT NULL WHERE FALSE)"
    always: str = "NOT IN (SELECT NULL WHERE FALSE)"


def write(
    sql: Sql, value: Callable[[Any], str], *, text: Callable[[str], str] = str, empty: Empty | None = None
) -> str:
    """The whole as one text.

    `value` makes a placeholder (and keeps the value) or a literal of each value, in their order; `text` is given what
    is not a value, to double the `%` in it where the driver wants that.
    """
    return "".join(written for _, written in written_parts(sql, value, text=text, empty=empty))


def written_parts(
    sql: Sql, value: Callable[[Any], str], *, text: Callable[[str], str] = str, empty: Empty | None = None
) -> list[tuple[Part, str]]:
    """Each part with its SQL text."""
    writer = _Writer(value, text, empty or Empty())
    found: list[tuple[Part, str]] = []
    for number, part in enumerate(sql.parts):
        written = writer.written(part)
        if written.startswith("-") and not isinstance(part, str) and _is_cast(sql.parts[number + 1 : number + 2]):
            written = f"({written})"  # -1::text would be -(1::text)
        if found and _sticks(found[-1], (part, written)):
            written = " " + written
        found.append((part, written))
    return found


def quoted(names: tuple[str, ...]) -> str:
    """A name in double quotes, part by part."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


class _Writer:
    def __init__(self, value: Callable[[Any], str], text: Callable[[str], str], empty: Empty) -> None:
        self.value, self.text, self.empty = value, text, empty

    def written(self, part: Part) -> str:
        match part:
            case Value(value):
                return self.value(value)
            case Identifier(names):
                return self.text(quoted(names))
            case InList((), negated):
                return self.text(self.empty.always if negated else self.empty.never)
            case InList(items, negated):
                return ("NOT " if negated else "") + f"IN ({', '.join(map(self._item, items))})"
            case str():
                return self.text(part)

    def _item(self, item: Any) -> str:
        """A value in a list; a list in the list is a row."""
        return f"({', '.join(map(self.value, item))})" if isinstance(item, list) else self.value(item)


def _sticks(before: tuple[Part, str], after: tuple[Part, str]) -> bool:
    """Whether two parts without a space between them might be read as one."""
    loose = " \t\n\r\f\v()[],;:"
    if isinstance(before[0], str) and isinstance(after[0], str):
        return False
    return before[1][-1:] not in loose and after[1][:1] not in loose


def _is_cast(following: tuple[Part, ...]) -> bool:
    return bool(following) and isinstance(following[0], str) and following[0].lstrip().startswith("::")
