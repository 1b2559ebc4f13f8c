"""Compiles SQL with templates to a function that binds their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, NoReturn, TypeVar

from noetl.errors import TemplateError, TemplateFailed
from noetl.expression import kind_of
from noetl.sql.comments import hide_comments
from noetl.sql.lexing import STANDARD, Dialect
from noetl.sql.parts import Identifier, InList, Part, Sql, Value
from noetl.sql.pieces import Piece, PieceRun, Pieces, TemplatePosition, TemplateValue, as_text
from noetl.sql.structure import InBrackets, InName, Inner, InString, SingleSlot, Slot, structure

Binder = Callable[[Mapping[str, Any]], Sql]
Printed = TypeVar("Printed", str | TemplatePosition, str | TemplateValue)
TAGS = ("{{", "{%", "{#")


def prepare_sql(source: str, dialect: Dialect = STANDARD) -> Binder:
    """A function that binds values. Raises TemplateSyntax; the function raises other TemplateErrors."""
    if not any(tag in source for tag in TAGS):
        constant = Sql((source,) if source else (), dialect)
        return lambda scope: constant
    try:
        return _PreparedSql(source, dialect).bind
    except TemplateError as error:
        raise _with_source(error, source) from None


def _with_source(error: TemplateError, source: str) -> TemplateError:
    """The error with the source of the author: the parsed one has hidden comments."""
    error.source = source
    return error


class _PreparedSql:
    def __init__(self, source: str, dialect: Dialect) -> None:
        self.source, self.dialect = source, dialect
        hidden, self.mark = hide_comments(source, dialect)
        self.pieces = Pieces(hidden)
        self.slots: list[Slot] | None = None
        """The slots, if every evaluation has the same."""
        fixed = self.pieces.fixed
        if fixed is not None and not any(
            isinstance(piece, TemplatePosition) and piece.filter == "raw_sql" for piece in fixed
        ):
            self.slots = structure([self._restored(piece) for piece in fixed], source, dialect)

    def bind(self, scope: Mapping[str, Any]) -> Sql:
        try:
            run = self.pieces.evaluate(scope)
            pieces = [self._spliced(self._restored(piece)) for piece in run.pieces]
            slots = structure(pieces, self.source, self.dialect) if self.slots is None else self.slots
            filling = _SlotBinder([piece for piece in pieces if isinstance(piece, TemplateValue)], run, self.source)
            return Sql(tuple(map(filling.part, slots)), self.dialect)
        except TemplateError as error:
            raise _with_source(error, self.source) from None

    def _restored(self, piece: Printed) -> Printed:
        return piece.replace(self.mark, "{") if isinstance(piece, str) else piece

    def _spliced(self, piece: Piece) -> Piece:
        if isinstance(piece, str) or piece.place.filter != "raw_sql":
            return piece
        if isinstance(piece.value, str):
            return piece.value
        message = f"`raw_sql` splices text, not {kind_of(piece.value)}"
        raise TemplateFailed(message, self.source, piece.place.offset)


class _SlotBinder:
    """The values of one evaluation."""

    def __init__(self, holes: list[TemplateValue], run: PieceRun, source: str) -> None:
        self.holes, self.run, self.source = holes, run, source

    def part(self, slot: Slot) -> Part:
        match slot:
            case SingleSlot(hole) if self.holes[hole].place.filter == "ident":
                return self._identifier(self.holes[hole])
            case SingleSlot(hole):
                return Value(self.holes[hole].value)
            case InString((int() as hole,)) if self.holes[hole].value is None:
                return Value(None)
            case InString(inner):
                return Value(self._text(inner))
            case InName(inner):
                first = next(part for part in inner if isinstance(part, int))
                return Identifier((self._name(self._text(inner), self.holes[first]),))
            case InBrackets(holes, negated):
                values = (self.holes[hole].value for hole in holes)
                lists = (value if isinstance(value, list) else [value] for value in values)
                return InList(tuple(chain.from_iterable(lists)), negated)
            case str():
                return slot

    def _text(self, inner: Inner) -> str:
        return "".join(part if isinstance(part, str) else self._inside(self.holes[part]) for part in inner)

    def _inside(self, hole: TemplateValue) -> str:
        if isinstance(hole.value, bytes):
            self._fail(hole, "binary content can't be inside a string", "leave out the quotes around the template")
        return as_text(hole.value, self.run)

    def _identifier(self, hole: TemplateValue) -> Identifier:
        names = hole.value.split(".") if isinstance(hole.value, str) else hole.value
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            self._fail(hole, f"a name is text or a list of texts, not {kind_of(hole.value)}")
        return Identifier(tuple(self._name(name, hole) for name in names))

    def _name(self, name: str, hole: TemplateValue) -> str:
        if not name or "\0" in name:
            reason = "is empty" if not name else "has a null character"
            self._fail(hole, f"a name, or a part of it, {reason}", "a name with a dot in it is given as a list")
        return name

    def _fail(self, hole: TemplateValue, message: str, hint: str | None = None) -> NoReturn:
        raise TemplateFailed(message, self.source, hole.place.offset, hint)
