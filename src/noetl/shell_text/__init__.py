"""Commands for a shell whose templates are data.

    prepare_shell("tar -cf {{ name }} 'in {{ folder }}'")(scope)
    -> ShellText(text='''tar -cf "${NOETL_1}" 'in '"${NOETL_2}"\'\'''', env={"NOETL_1": ..., "NOETL_2": ...})

A value never becomes a part of the text that the shell reads, nor of a process's arguments. It goes into an
environment variable, and in the text stands a reference to that variable, quoted for its place: `"${NOETL_1}"`
outside quotes, `${NOETL_1}` inside double quotes and in a here-document, `'"${NOETL_1}"'` inside single quotes. So the
worst that a hostile value can do is to be an odd word. To know the place, the command is scanned as a shell does it:
quotes, `$( )`, backticks, `${ }`, `$(( ))`, here-documents, comments.

A list that stands alone outside quotes is several words, one for each item and none if it is empty. Anywhere else a
list is its JSON, as a map is everywhere. Null is empty text, a boolean `true` or `false`. Inside `$(( ))` only a whole
number can stand. In a comment nothing is rendered.

Some places can't be safe however they are quoted, because what the shell hands on is read as code by someone else:
the argument of `eval` or of `sh -c`, a here-document for `bash`, a subscript of an array, the word behind `>&`, a
command inside `$(( ))`. A template there is refused when it is prepared. Variables are not followed:
`x={{ value }}; eval "$x"` is up to the author.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from noetl.errors import TemplateError, TemplateFailed, TemplateSyntax
from noetl.expression import Budget, parse, revealed
from noetl.expression.fault import located
from noetl.expression.lexer import Lexeme
from noetl.expression.parsing import lex
from noetl.expression.text import to_json
from noetl.shell_text.code import TEMPLATE, by_programs
from noetl.shell_text.scan import Context, Part, Plan, Scanner

BEGIN, END = "\1", "\2"
"""Around a value that was printed as JSON, which itself has no control characters."""


class ShellText(NamedTuple):
    """A command for a shell, and the variables it refers to."""

    text: str
    env: dict[str, str]


def prepare_shell(source: str) -> Callable[[Mapping[str, Any]], ShellText]:
    """A function that binds values. TemplateSyntax for what does not parse or can't be safe."""
    template = parse(source)
    if template.is_constant:
        return lambda scope: ShellText(source, {})
    lexemes = lex(source)
    if any(lexeme.type == "block_begin" for lexeme in lexemes):
        return _with_statements(source, lexemes)
    parts, offsets, values = _split(source, lexemes)
    plan = Scanner(parts, offsets, source).plan()
    return lambda scope: _assemble(plan, lambda number: values[number](scope), source, offsets)


def check_words(words: Sequence[Any]) -> None:
    """TemplateSyntax if a template in a list of words would be read as code: `[sh, -c, "echo {{ x }}"]`."""
    literal, first = [], ("", 0)
    for word in words:
        text = word if isinstance(word, str) else ""
        holes = [lexeme for lexeme in lex(text) if lexeme.type == "variable_begin"]
        first = first if first[0] or not holes else (text, holes[0].offset)
        literal.append(_in_words(text) if holes else text)
    rejection = next(by_programs(literal), None)
    if rejection is not None:
        raise TemplateSyntax(rejection.message, *first, rejection.hint)


def _in_words(text: str) -> str:
    return "".join(
        TEMPLATE if lexeme.type == "variable_begin" else lexeme.text * (lexeme.type == "data") for lexeme in lex(text)
    )


# -- templates --------------------------------------------------------------------------------------------------------


def _split(
    source: str, lexemes: list[Lexeme]
) -> tuple[list[Part], list[int], list[Callable[[Mapping[str, Any]], Any]]]:
    """Text and templates in turn, the offset of each template, and how to evaluate it."""
    parts: list[Part] = []
    offsets: list[int] = []
    values: list[Callable[[Mapping[str, Any]], Any]] = []
    for lexeme in lexemes:
        if lexeme.type == "data":
            parts.append(lexeme.text)
        elif lexeme.type == "variable_begin":
            parts.append(len(offsets))
            offsets.append(lexeme.offset)
        elif lexeme.type == "variable_end":
            values.append(_value(source, offsets[-1], lexeme.end))
    return parts, offsets, values


def _value(source: str, start: int, end: int) -> Callable[[Mapping[str, Any]], Any]:
    template = parse(source[start:end].rstrip())

    def value(scope: Mapping[str, Any]) -> Any:
        try:
            return template.evaluate(scope)
        except TemplateError as error:
            error.source, error.offset = source, error.offset + start
            raise

    return value


def _with_statements(source: str, lexemes: list[Lexeme]) -> Callable[[Mapping[str, Any]], ShellText]:
    """A command with statements. Its text depends on the values, so it is scanned each time.

    Every value is printed as JSON between two characters that JSON never contains, and extracted again.
    """
    _check_statements(source, lexemes)
    marked = _marked(source, lexemes)
    template = parse(marked.text)

    def made(scope: Mapping[str, Any]) -> ShellText:
        try:
            pieces = str(revealed(template.evaluate(scope))).split(BEGIN)
        except TemplateError as error:
            error.source, error.offset = source, marked.original(error.offset)
            raise
        from json import loads

        parts: list[Part] = [pieces[0]]
        values: list[Any] = []
        for piece in pieces[1:]:
            value, _, text = piece.partition(END)
            parts += [len(values), text]
            values.append(loads(value))
        offsets = [0] * len(values)
        plan = Scanner(parts, offsets, source).plan()
        return _assemble(plan, values.__getitem__, source, offsets)

    return made


class _Marked(NamedTuple):
    """A source with insertions: the start of each, and the number of characters inserted up to its end."""

    text: str
    inserted: list[tuple[int, int]]

    def original(self, offset: int) -> int:
        return offset - max((total for start, total in self.inserted if start <= offset), default=0)


def _marked(source: str, lexemes: list[Lexeme]) -> _Marked:
    out: list[str] = []
    inserted: list[tuple[int, int]] = []
    end = length = total = 0

    def insert(position: int, text: str) -> None:
        nonlocal end, length, total
        out.extend((source[end:position], text))
        length += position - end + len(text)
        total += len(text)
        inserted.append((length - len(text), total))
        end = position

    for lexeme in lexemes:
        if lexeme.type == "variable_begin":
            insert(lexeme.end, f"'{BEGIN}' ~ ((")
        elif lexeme.type == "variable_end":
            insert(lexeme.offset, f") | tojson) ~ '{END}'")
    return _Marked("".join([*out, source[end:]]), inserted)


def _check_statements(source: str, lexemes: list[Lexeme]) -> None:
    """Statements that take text as a value would capture our marks."""
    if BEGIN in source or END in source:
        raise TemplateSyntax("a command can't have control characters", source, 0)
    words = [lexeme for lexeme in lexemes if lexeme.type != "whitespace"]
    for number, lexeme in enumerate(words):
        if lexeme.type != "block_begin":
            continue
        tag = words[number + 1]
        rest = words[number : next(i for i in range(number, len(words)) if words[i].type == "block_end")]
        if tag.text == "filter" or (tag.text == "set" and not any(word.text == "=" for word in rest)):
            hint = "set a value, `{% set x = ... %}`, or use `if` and `for`"
            raise TemplateSyntax(f"a block of '{tag.text}' can't be used in a command", source, tag.offset, hint)


# -- values -----------------------------------------------------------------------------------------------------------


def _assemble(plan: Plan, value_of: Callable[[int], Any], source: str, offsets: list[int]) -> ShellText:
    """The text with references in place of the templates, and the variables they refer to."""
    out: list[str] = []
    env: dict[str, str] = {}

    def named(value: str) -> str:
        name = f"NOETL_{len(env) + 1}"
        env[name] = value
        return name

    for part in plan:
        if isinstance(part, str):
            out.append(part)
            continue
        value = revealed(value_of(part.number))
        try:
            if part.place == "alone" and isinstance(value, list | tuple):
                out.append(" ".join(_reference(named(_text(revealed(one))), "outside") for one in value))
            else:
                text = _number(value) if part.place == "number" else _text(value)
                out.append(_reference(named(text), part.place))
        except _InvalidValue as error:
            raise TemplateFailed(error.message, source, offsets[part.number], error.hint) from None
        except Exception as error:
            raise located(error, source, offsets[part.number]) from None
    return ShellText("".join(out), env)


class _InvalidValue(Exception):
    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def _reference(name: str, place: Context) -> str:
    match place:
        case "inside":
            return f"${{{name}}}"
        case "single":
            return f"'\"${{{name}}}\"'"
        case "number":
            return f"(${{{name}}})"
    return f'"${{{name}}}"'


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise _InvalidValue(
                "binary content can't be a word of a command", "write it to a file, or use `stdin`"
            ) from None
    if isinstance(value, str):
        if "\0" in value:
            raise _InvalidValue("a word of a command can't contain the character NUL")
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else to_json(value, Budget())


def _number(value: Any) -> str:
    """Only digits: some shells evaluate a variable that they use as a number."""
    if isinstance(value, str) and re.fullmatch(r"\s*[-+]?[0-9]{1,18}\s*", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _InvalidValue("inside $(( )) a template must give a whole number", "convert it with `| int`")
    return str(value)
