"""The parts that the values of templates become."""

from __future__ import annotations

from typing import Any, NoReturn, TypeAlias

from noetl.errors import TemplateFailed
from noetl.expression import kind_of
from noetl.sql.parts import Identifier, InList, Part, Value
from noetl.sql.pieces import PieceRun, TemplateValue, as_text

Inner: TypeAlias = tuple[str | int, ...]
"""The content of a string or name: texts, and templates by their number."""


class Binding:
    """The values of one evaluation; templates are given by their number."""

    def __init__(self, holes: list[TemplateValue], run: PieceRun, source: str) -> None:
        self.holes, self.run, self.source = holes, run, source

    def single(self, number: int) -> Part:
        """A template on its own: a value, or a name with the filter `ident`."""
        hole = self.holes[number]
        if hole.place.filter != "ident":
            return Value(hole.value)
        names = hole.value.split(".") if isinstance(hole.value, str) else hole.value
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            self._fail(hole, f"a name is text or a list of texts, not {kind_of(hole.value)}")
        return Identifier(tuple(self._name(name, hole) for name in names))

    def string(self, inner: Inner) -> Part:
        """A string with templates in it: one value as a whole."""
        match inner:
            case (int() as number,) if self.holes[number].value is None:
                return Value(None)
        return Value(self._text(inner))

    def name(self, inner: Inner) -> Part:
        """A name in double quotes with templates in it."""
        first = next(part for part in inner if isinstance(part, int))
        return Identifier((self._name(self._text(inner), self.holes[first]),))

    def in_list(self, numbers: range, negated: bool) -> Part:
        """The values of `IN (...)`, and whether `NOT` is before it."""
        items: list[Any] = []
        for number in numbers:
            value = self.holes[number].value
            items += value if isinstance(value, list) else [value]
        return InList(tuple(items), negated)

    def _text(self, inner: Inner) -> str:
        return "".join(part if isinstance(part, str) else self._inside(self.holes[part]) for part in inner)

    def _inside(self, hole: TemplateValue) -> str:
        if isinstance(hole.value, bytes):
            self._fail(hole, "binary content can't be inside a string", "leave out the quotes around the template")
        return as_text(hole.value, self.run)

    def _name(self, name: str, hole: TemplateValue) -> str:
        if not name or "\0" in name:
            reason = "is empty" if not name else "has a null character"
            self._fail(hole, f"a name, or a part of it, {reason}", "a name with a dot in it is given as a list")
        return name

    def _fail(self, hole: TemplateValue, message: str, hint: str | None = None) -> NoReturn:
        raise TemplateFailed(message, self.source, hole.place.offset, hint)
