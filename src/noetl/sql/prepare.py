"""Compiles SQL with templates to a function that binds their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from noetl.errors import TemplateError, TemplateFailed
from noetl.expression import kind_of
from noetl.sql.comments import hide_comments
from noetl.sql.lexing import STANDARD, Dialect
from noetl.sql.parts import Sql
from noetl.sql.pieces import Piece, Pieces, TemplatePosition, TemplateValue
from noetl.sql.structure import Binding, Slot, structure

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
        error.source = source  # the author's: the parsed one has hidden comments
        raise


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
            binding = Binding([piece for piece in pieces if isinstance(piece, TemplateValue)], run, self.source)
            parts = (slot if isinstance(slot, str) else slot(binding) for slot in slots)
            return Sql(tuple(parts), self.dialect)
        except TemplateError as error:
            error.source = self.source
            raise

    def _restored(self, piece: Printed) -> Printed:
        return piece.replace(self.mark, "{") if isinstance(piece, str) else piece

    def _spliced(self, piece: Piece) -> Piece:
        if isinstance(piece, str) or piece.place.filter != "raw_sql":
            return piece
        if isinstance(piece.value, str):
            return piece.value
        message = f"`raw_sql` splices text, not {kind_of(piece.value)}"
        raise TemplateFailed(message, self.source, piece.place.offset)
