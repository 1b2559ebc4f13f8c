"""SQL with templates in it, where a template is always one value and never text.

    bind = prepare_sql("SELECT * FROM {{ table | ident }} WHERE name LIKE '{{ start }}%' AND id IN ({{ ids }})")
    sql = bind(scope)            Sql: texts, and between them Value, Identifier and InList
    statements(sql)              one Sql for each statement
    write(sql, placeholder)      the text for a driver

The position of a template decides what it becomes, before any value is known:

    {{ x }}                      one value: text, number, list (an array), map (JSON), null
    'a {{ x }} b'                one value as a whole, the text of the string; '{{ x }}' with null is null
    "a {{ x }} b"                one name as a whole
    {{ x | ident }}              a name; `schema.table` and lists are names of several parts
    IN ({{ x }}), IN {{ x }}     a list is the list; an empty one holds nothing
    {{ x | raw_sql }}            text, spliced before anything else is read
    -- {{ x }}  /* {{ x }} */    nothing: comments are never rendered
    $$ {{ x }} $$                one value, the text between the dollars; in the code of DO or CREATE FUNCTION an error

`if`, `for`, `set` and `with` choose text; the values inside are bound as well. A template without a space between it
and a word, or directly next to a string, is an error: the server would read something else than the author wrote. So is
a template that is a whole statement: it would be a value.

The templates are marks in the text while it is read (see `lexing`). So it is known what the server reads as a string, a
name or a comment, whatever a value contains.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import Any, NoReturn, TypeAlias

from noetl.errors import TemplateError, TemplateFailed, TemplateSyntax
from noetl.expression import kind_of
from noetl.expression.budget import Budget, budget_in
from noetl.expression.functions import SQL_FILTERS
from noetl.expression.pieces import Piece, TemplateValue, compile_pieces
from noetl.expression.text import storable, to_json, to_text
from noetl.expression.values import located
from noetl.sql.lexing import STANDARD, SqlDialect, hide_comments, literal_text, tokens, unused_character
from noetl.sql.statements import Identifier, InList, Part, Sql, Value

Content: TypeAlias = tuple[str | int, ...]
"""The content of a string or name: texts, and templates by their number."""
Slot: TypeAlias = "str | Callable[[Binding], Part]"
"""A text, or the function that makes a part of the values of its templates."""

RUNS_CODE = frozenset(["DO", "EXECUTE", "BEGIN", "DECLARE"])
HOLDS_CODE = frozenset(["FUNCTION", "PROCEDURE", "TASK"])
"""First words of statements whose dollar-quoted strings are code, and what `CREATE` makes of code."""
IN_LIST = re.compile(r"N?I(?:T|\(T(?:,T)*\))")
"""In a text with one letter per token; see `_letter`."""


def prepare_sql(source: str, dialect: SqlDialect = STANDARD) -> Callable[[Mapping[str, Any]], Sql]:
    """A function that binds values. Raises TemplateSyntax; the function raises other TemplateErrors."""
    if not any(tag in source for tag in ("{{", "{%", "{#")):
        constant = Sql((source,) if source else (), dialect, source=source)
        return lambda scope: constant
    hidden, mark = hide_comments(source, dialect)
    fixed_slots: list[Slot] | None = None  # where every evaluation has the same
    try:
        evaluate, printed = compile_pieces(hidden, "SQL", SQL_FILTERS)
        if printed is not None and not any(not isinstance(p, str) and p.filter == "raw_sql" for p in printed):
            restored = [piece.replace(mark, "{") if isinstance(piece, str) else piece for piece in printed]
            fixed_slots = _SlotReader(restored, source, dialect).slots()
    except TemplateError as error:
        error.source = source  # the author's: the parsed one has hidden comments
        raise

    def bind(scope: Mapping[str, Any]) -> Sql:
        try:
            run = evaluate(scope, budget_in(scope), ())
            pieces: list[Piece] = []
            for piece in run.pieces:
                if isinstance(piece, str):
                    pieces.append(piece.replace(mark, "{"))
                elif piece.filter == "raw_sql":
                    if not isinstance(piece.value, str):
                        message = f"`raw_sql` splices text, not {kind_of(piece.value)}"
                        raise TemplateFailed(message, source, piece.offset)
                    pieces.append(piece.value)
                elif isinstance(piece.value, int | float | str):  # the driver rejects what its database cannot store
                    pieces.append(piece)
                else:
                    pieces.append(_stored(piece, run.budget, source))
            slots = _SlotReader(pieces, source, dialect).slots() if fixed_slots is None else fixed_slots
            binding = Binding([piece for piece in pieces if isinstance(piece, TemplateValue)], run.budget, source)
            parts = tuple(slot if isinstance(slot, str) else slot(binding) for slot in slots)
            return Sql(parts, dialect, source=source)
        except TemplateError as error:
            error.source = source
            raise

    return bind


def _stored(template: TemplateValue, budget: Budget, source: str) -> TemplateValue:
    try:
        return template._replace(value=storable(template.value, budget))
    except Exception as error:
        raise located(error, source, template.offset) from None


class Binding:
    def __init__(self, values: list[TemplateValue], budget: Budget, source: str) -> None:
        self.values, self.budget, self.source = values, budget, source

    def single(self, number: int) -> Part:
        """A template on its own: a value, or a name with the filter `ident`."""
        template = self.values[number]
        if template.filter != "ident":
            return Value(template.value)
        names = template.value.split(".") if isinstance(template.value, str) else template.value
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            self._fail(template, f"a name is text or a list of texts, not {kind_of(template.value)}")
        return self._identifier(tuple(names), template)

    def string(self, content: Content) -> Part:
        match content:
            case (int() as number,) if self.values[number].value is None:
                return Value(None)
        return Value(self._text(content))

    def name(self, content: Content) -> Part:
        first = next(part for part in content if isinstance(part, int))
        return self._identifier((self._text(content),), self.values[first])

    def in_list(self, numbers: range, negated: bool) -> Part:
        items: list[Any] = []
        for number in numbers:
            value = self.values[number].value
            items += value if isinstance(value, list) else [value]
        return InList(tuple(items), negated)

    def _text(self, content: Content) -> str:
        """Null is empty, lists and maps are JSON, other values are as a template prints them."""
        texts: list[str] = []
        for part in content:
            if isinstance(part, str):
                texts.append(part)
                continue
            value = self.values[part].value
            if isinstance(value, bytes):
                hint = "leave out the quotes around the template"
                self._fail(self.values[part], "binary content cannot be inside a string", hint)
            if value is not None:
                written = to_json if isinstance(value, list | dict) else to_text
                texts.append(written(value, self.budget))
        return "".join(texts)

    def _identifier(self, names: tuple[str, ...], template: TemplateValue) -> Identifier:
        for name in names:
            if not name or "\0" in name:
                reason = "is empty" if not name else "has a null character"
                hint = "a name with a dot in it is given as a list"
                self._fail(template, f"a name, or a part of it, {reason}", hint)
        return Identifier(names)

    def _fail(self, template: TemplateValue, message: str, hint: str | None = None) -> NoReturn:
        raise TemplateFailed(message, self.source, template.offset, hint)


class _SlotReader:
    """Finds the position of each template, and so its kind; TemplateSyntax where it cannot be bound."""

    def __init__(self, pieces: list[Piece], source: str, dialect: SqlDialect) -> None:
        self.source, self.dialect = source, dialect
        self.templates = [piece for piece in pieces if not isinstance(piece, str)]
        self.mark = unused_character("".join(piece for piece in pieces if isinstance(piece, str)))
        self.text = "".join(piece if isinstance(piece, str) else self.mark for piece in pieces)
        self.tokens = list(tokens(self.text, dialect, self.mark))
        counts = (self.text.count(self.mark, token.start, token.end) for token in self.tokens)
        self.first = list(accumulate(counts, initial=0))
        self.significant = [number for number, token in enumerate(self.tokens) if not token.insignificant]

    def slots(self) -> list[Slot]:
        in_lists = self._in_lists()
        slots: list[Slot] = []
        plain = number = 0
        while number < len(self.tokens):
            last = number
            if number in in_lists or self.first[number] != self.first[number + 1]:
                last, slot = in_lists.get(number) or (number, self._slot(number))
                slots += (self.text[plain : self.tokens[number].start], slot)
                plain = self.tokens[last].end
            number = last + 1
        slots.append(self.text[plain:])
        for number, following in pairwise(range(len(self.tokens))):
            self._check_spaces(number, following)
            self._check_spaces(following, number)
        for pair in pairwise(self.significant):
            self._check_adjacent(pair)
        self._check_statements()
        return [slot for slot in slots if slot != ""]

    def _check_statements(self) -> None:
        """A statement that is one template would be a value, which no server can run."""
        ends = [-1, *(place for place, token in enumerate(self.significant) if self._written(token) == ";")]
        for start, end in pairwise([*ends, len(self.significant)]):
            match self.significant[start + 1 : end]:
                case [token] if self.tokens[token].kind == "mark":
                    message = "a template is one value and cannot be a whole statement"
                    raise self._error(self.first[token], message, "splice the text: {{ ... | raw_sql }}")

    def _written(self, number: int) -> str:
        return self.text[self.tokens[number].start : self.tokens[number].end]

    def _slot(self, number: int) -> Slot:
        first, token = self.first[number], self.tokens[number]
        match token.kind:
            case "mark":
                return lambda binding: binding.single(first)
            case "string":
                prefix = self._written(number).partition("'")[0].upper()
                if prefix not in ("", "E", "N"):
                    message = f"a template cannot be inside {prefix}'...'"
                    raise self._error(first, message, "write it in '...' and cast it")
                self._refuse_names(number)
                escaped = prefix == "E" or self.dialect.backslashes
                text = self._content(number, lambda text: literal_text(text, escaped))
                return lambda binding: binding.string(text)
            case "name":
                if self.text[token.start] != '"':
                    raise self._error(first, 'a template cannot be inside U&"..."', 'write the name in "..."')
                name = self._content(number, lambda text: text.replace('""', '"'))
                return lambda binding: binding.name(name)
            case "dollar" if number not in self._code:
                self._refuse_names(number)
                body = self._content(number, lambda text: text)
                return lambda binding: binding.string(body)
            case "dollar":
                message = "a template cannot be inside a dollar-quoted string: in a code body data would become code"
                hint = "pass it as an argument, or as a setting: SELECT set_config('app.name', {{ value }}, true)"
                raise self._error(first, message, hint)
            case _:
                raise self._error(first, "this template is inside a comment of the SQL")

    def _refuse_names(self, number: int) -> None:
        for template in range(self.first[number], self.first[number + 1]):
            if self.templates[template].filter == "ident":
                message = "`ident` makes a name and this is a string"
                raise self._error(template, message, "leave out the quotes or the filter")

    @cached_property
    def _code(self) -> frozenset[int]:
        """The dollar-quoted strings that are code, by the words of their statement before them."""
        code, first, announced = set(), "", False
        for number, token in enumerate(self.tokens):
            if token.kind == "word":
                word = self._written(number).upper()
                first = first or word
                announced = announced or first in RUNS_CODE or (first == "CREATE" and word in HOLDS_CODE)
            elif token.kind == "dollar" and announced:
                code.add(number)
            elif self.text[token.start] == ";":
                first, announced = "", False
        return frozenset(code)

    def _content(self, number: int, decode: Callable[[str], str]) -> Content:
        written, first = self._written(number), self.first[number]
        if not self.tokens[number].closed:
            raise self._error(first, "the quote before this template is never closed")
        quote = written[: written.index("$", 1) + 1] if written[0] == "$" else written[-1]
        texts = written[written.index(quote) + len(quote) : -len(quote)].split(self.mark)
        content: list[str | int] = [decode(texts[0])]
        for template, text in enumerate(texts[1:], start=first):
            content += (template, decode(text))
        return tuple(part for part in content if part != "")

    def _check_spaces(self, number: int, other: int) -> None:
        """A template is a token. Next to a word, the server would read something else."""
        if self.tokens[number].kind != "mark":
            return
        template = self.first[number]
        if self.tokens[other].kind in ("word", "number"):
            hint = 'add a space; a name with a template in it goes in double quotes: "table_{{ x }}"'
            raise self._error(template, f"there is no space between a template and {self._written(other)!r}", hint)
        if self._written(other) == "." and self.templates[template].filter != "ident":
            raise self._error(template, "a template next to a dot is a name", "write {{ name | ident }}")

    def _check_adjacent(self, pair: tuple[int, int]) -> None:
        """The server joins two adjacent strings, or reports an error that is hard to understand."""
        templates = [self.first[token] for token in pair if self.tokens[token].kind == "mark"]
        is_data = all(self.tokens[token].kind in ("string", "mark") for token in pair)
        if templates and is_data and not any(self.templates[template].filter for template in templates):
            neighbour = "another" if len(templates) == 2 else "a string"
            message = f"a template is directly next to {neighbour}"
            raise self._error(templates[0], message, "put an operator or a comma between them")

    def _in_lists(self) -> dict[int, tuple[int, Slot]]:
        """Each `[NOT] IN` whose list has only templates: its first token, its last token and the slot."""
        lists: dict[int, tuple[int, Slot]] = {}
        for match in IN_LIST.finditer("".join(map(self._letter, self.significant))):
            first, last = self.significant[match.start()], self.significant[match.end() - 1]
            templates = range(self.first[first], self.first[last + 1])
            if not any(self.templates[template].filter for template in templates):
                lists[first] = (last, partial(Binding.in_list, numbers=templates, negated=match[0][0] == "N"))
        return lists

    def _letter(self, number: int) -> str:
        """T for a template, I for `IN`, N for `NOT`; a symbol is itself, anything else `_`."""
        kind, written = self.tokens[number].kind, self._written(number)
        if kind == "word":
            return {"IN": "I", "NOT": "N"}.get(written.upper(), "_")
        return "T" if kind == "mark" else written if kind == "symbol" else "_"

    def _error(self, template: int, message: str, hint: str | None = None) -> TemplateSyntax:
        return TemplateSyntax(message, self.source, self.templates[template].offset, hint)
