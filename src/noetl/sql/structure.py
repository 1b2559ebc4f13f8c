"""The positions of templates in SQL, and so what each of them becomes.

The templates are marks in the text while it is read (see `lexing`). So it is known what the server reads as a string, a
name or a comment, whatever a value contains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NoReturn, TypeAlias

from noetl.errors import TemplateFailed, TemplateSyntax
from noetl.expression import kind_of
from noetl.sql.lexing import Dialect, literal_text, tokens, unused_character
from noetl.sql.parts import Identifier, InList, Part, Value
from noetl.sql.pieces import PieceRun, TemplatePosition, TemplateValue, as_text

Inner: TypeAlias = tuple[str | int, ...]
"""The content of a string or name: texts, and templates by their number."""
Slot: TypeAlias = "str | Callable[[Binding], Part]"
"""A text, or the function that makes a part of the values of its templates."""


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


def structure(pieces: Sequence[str | TemplatePosition | TemplateValue], source: str, dialect: Dialect) -> list[Slot]:
    """The kind of each part of the text; TemplateSyntax where a template can't be bound."""
    return _Reader(pieces, source, dialect).slots()


class _Reader:
    def __init__(self, pieces: Sequence[str | TemplatePosition | TemplateValue], source: str, dialect: Dialect) -> None:
        self.source, self.dialect = source, dialect
        self.places = [
            piece.place if isinstance(piece, TemplateValue) else piece for piece in pieces if not isinstance(piece, str)
        ]
        self.mark = unused_character("".join(piece for piece in pieces if isinstance(piece, str)))
        self.text = "".join(piece if isinstance(piece, str) else self.mark for piece in pieces)
        self.tokens = list(tokens(self.text, dialect, self.mark))
        counts = (self.text.count(self.mark, token.start, token.end) for token in self.tokens)
        self.first = list(accumulate(counts, initial=0))
        """By token, the number of its first template."""
        self.significant = [number for number, token in enumerate(self.tokens) if not token.insignificant]

    def slots(self) -> list[Slot]:
        brackets = self._in_lists()
        slots: list[Slot] = []
        plain = number = 0
        while number < len(self.tokens):
            last = number
            if number in brackets or self.first[number] != self.first[number + 1]:
                last, slot = brackets.get(number) or (number, self._slot(number))
                slots += (self.text[plain : self.tokens[number].start], slot)
                plain = self.tokens[last].end
            number = last + 1
        slots.append(self.text[plain:])
        for number, following in pairwise(range(len(self.tokens))):
            self._check_spaces(number, following)
            self._check_spaces(following, number)
        for number, following in pairwise(self.significant):
            self._check_adjacent(number, following)
        return [slot for slot in slots if slot != ""]

    def _written(self, number: int) -> str:
        return self.text[self.tokens[number].start : self.tokens[number].end]

    def _slot(self, number: int) -> Slot:
        first, token = self.first[number], self.tokens[number]
        place, hint = self.places[first], ""
        match token.kind:
            case "mark":
                return lambda binding: binding.single(first)
            case "string":
                inner = self._string(number)
                return lambda binding: binding.string(inner)
            case "name":
                if self.text[token.start] != '"':
                    raise self._fault(place, 'a template can\'t be inside U&"..."', 'write the name in "..."')
                content = self._inner(number, lambda text: text.replace('""', '"'))
                return lambda binding: binding.name(content)
            case "dollar":
                message = "a template can't be inside a dollar-quoted string: in a code body data would become code"
                hint = "pass it as an argument, or as a setting: SELECT set_config('app.name', {{ value }}, true)"
            case _:
                message = "this template is inside a comment of the SQL"
        raise self._fault(place, message, hint)

    def _string(self, number: int) -> Inner:
        prefix = self._written(number).partition("'")[0].upper()
        places = self.places[self.first[number] : self.first[number + 1]]
        if prefix not in ("", "E", "N"):
            message = f"a template can't be inside {prefix}'...'"
            raise self._fault(places[0], message, "write it in '...' and cast it")
        for place in places:
            if place.filter == "ident":
                message = "`ident` makes a name and this is a string"
                raise self._fault(place, message, "leave out the quotes or the filter")
        escaped = prefix == "E" or self.dialect.backslashes
        return self._inner(number, lambda text: literal_text(text, escaped))

    def _inner(self, number: int, decode: Callable[[str], str]) -> Inner:
        written, first = self._written(number), self.first[number]
        if not self.tokens[number].closed:
            raise self._fault(self.places[first], "the quote before this template is never closed")
        texts = written[written.index(written[-1]) + 1 : -1].split(self.mark)
        inner: list[str | int] = [decode(texts[0])]
        for hole, text in enumerate(texts[1:], start=first):
            inner += (hole, decode(text))
        return tuple(part for part in inner if part != "")

    def _check_spaces(self, number: int, other: int) -> None:
        """A template is a token. Next to a word, the server would read something else."""
        if self.tokens[number].kind != "mark":
            return
        place = self.places[self.first[number]]
        if self.tokens[other].kind in ("word", "number"):
            hint = 'add a space; a name with a template in it goes in double quotes: "table_{{ x }}"'
            raise self._fault(place, f"there is no space between a template and {self._written(other)!r}", hint)
        if self._written(other) == "." and place.filter != "ident":
            raise self._fault(place, "a template beside a dot is a name", "write {{ name | ident }}")

    def _check_adjacent(self, number: int, following: int) -> None:
        """The server joins two adjacent strings, or reports an error that is hard to understand."""
        pair = (number, following)
        places = [self.places[self.first[token]] for token in pair if self.tokens[token].kind == "mark"]
        if any(self.tokens[token].kind not in ("string", "mark") for token in pair) or any(p.filter for p in places):
            return
        if places:
            neighbour = "another" if len(places) == 2 else "a string"
            message = f"a template is directly beside {neighbour}"
            raise self._fault(places[0], message, "put an operator or a comma between them")

    def _in_lists(self) -> dict[int, tuple[int, Slot]]:
        """Each `[NOT] IN` whose list has only templates: its first token, its last token and the slot."""
        lists: dict[int, tuple[int, Slot]] = {}
        for place, number in enumerate(self.significant):
            last = self._end_of_list(place + 1) if self._word(place) == "IN" else None
            if last is None:
                continue
            holes = range(self.first[number], self.first[self.significant[last] + 1])
            if not any(self.places[hole].filter for hole in holes):
                negated = place > 0 and self._word(place - 1) == "NOT"
                begin = self.significant[place - 1] if negated else number
                lists[begin] = (self.significant[last], partial(Binding.in_list, numbers=holes, negated=negated))
        return lists

    def _end_of_list(self, place: int) -> int | None:
        """The last token of `template` or `(template, template ...)`, if that starts here."""
        if self._kind(place) == "mark":
            return place
        if self._kind(place) != "(":
            return None
        while self._kind(place + 1) == "mark" and self._kind(place + 2) in (",", ")"):
            place += 2
            if self._kind(place) == ")":
                return place
        return None

    def _kind(self, place: int) -> str:
        """The kind of a token, or the symbol itself."""
        if place >= len(self.significant):
            return ""
        kind = self.tokens[self.significant[place]].kind
        return self._written(self.significant[place]) if kind == "symbol" else kind

    def _word(self, place: int) -> str:
        number = self.significant[place]
        return self._written(number).upper() if self.tokens[number].kind == "word" else ""

    def _fault(self, place: TemplatePosition, message: str, hint: str = "") -> TemplateSyntax:
        return TemplateSyntax(message, self.source, place.offset, hint or None)
