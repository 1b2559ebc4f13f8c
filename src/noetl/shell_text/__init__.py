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

Some places cannot be safe however they are quoted, because what the shell hands on is read as code by someone else:
the argument of `eval` or of `sh -c`, a here-document for `bash`, a subscript of an array, the word behind `>&`, a
command inside `$(( ))`. A template there is refused when it is prepared. Variables are not followed:
`x={{ value }}; eval "$x"` is up to the author.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from noetl.errors import TemplateError, TemplateSyntax
from noetl.expression import Budget, parse, revealed
from noetl.expression.fault import Fault, located
from noetl.expression.lexer import Lexeme, lex
from noetl.expression.text import to_json
from noetl.shell_text.code import TEMPLATE, by_programs
from noetl.shell_text.scan import Context, Part, Plan, Scanner

BEGIN, END = "\1", "\2"
"""Around a value that was printed as JSON, which itself has no control characters."""
REFERENCES: dict[Context, str] = {
    "alone": '"${%s}"',
    "outside": '"${%s}"',
    "inside": "${%s}",
    "single": "'\"${%s}\"'",
    "number": "(${%s})",
}

Scope = Mapping[str, Any]


class ShellText(NamedTuple):
    """A command, and the variables it refers to."""

    text: str
    env: dict[str, str]


def prepare_shell(source: str) -> Callable[[Scope], ShellText]:
    """A function that binds values. TemplateSyntax for what does not parse or cannot be safe."""
    template = parse(source)
    if template.is_constant:
        return lambda scope: ShellText(source, {})
    lexemes = lex(source)
    if any(lexeme.type == "block_begin" for lexeme in lexemes):
        return _with_statements(source, lexemes)
    parts: list[Part] = []
    offsets: list[int] = []
    values: list[Callable[[Scope], Any]] = []
    for lexeme in lexemes:
        if lexeme.type == "data":
            parts.append(lexeme.text)
        elif lexeme.type == "variable_begin":
            parts.append(len(offsets))
            offsets.append(lexeme.offset)
        elif lexeme.type == "variable_end":
            start = offsets[-1]
            values.append(_evaluator(source[start : lexeme.end].rstrip(), source, partial(int.__add__, start)))
    plan = Scanner(parts, offsets, source).plan()
    return lambda scope: _assemble(plan, lambda number: values[number](scope), source, offsets)


def check_words(words: Sequence[Any]) -> None:
    """TemplateSyntax if a template in a list of words would be read as code: `[sh, -c, "echo {{ x }}"]`."""
    marked, first = [], ("", 0)
    for word in words:
        text = ""
        for lexeme in lex(word) if isinstance(word, str) else ():
            if lexeme.type == "data":
                text += lexeme.text
            elif lexeme.type == "variable_begin":
                text += TEMPLATE
                first = first if first[0] else (word, lexeme.offset)
        marked.append(text)
    for rejection in by_programs(marked):
        raise TemplateSyntax(rejection.message, *first, rejection.hint)


def _evaluator(template: str, source: str, original: Callable[[int], int]) -> Callable[[Scope], Any]:
    """Evaluates a template; errors name the place in the source from which it was made."""
    evaluate = parse(template).evaluate

    def value(scope: Scope) -> Any:
        try:
            return evaluate(scope)
        except TemplateError as error:
            error.source, error.offset = source, original(error.offset)
            raise

    return value


def _with_statements(source: str, lexemes: list[Lexeme]) -> Callable[[Scope], ShellText]:
    """A command with statements. Its text depends on the values, so it is scanned each time.

    Every value is printed as JSON between two characters that JSON never contains, and extracted again.
    """
    _check_statements(source, lexemes)
    template, end = "", 0
    insertions: list[tuple[int, int]] = []  # the start and size of each
    for lexeme in lexemes:
        if lexeme.type == "variable_begin":
            position, mark = lexeme.end, f"'{BEGIN}' ~ (("
        elif lexeme.type == "variable_end":
            position, mark = lexeme.offset, f") | tojson) ~ '{END}'"
        else:
            continue
        template += source[end:position]
        insertions.append((len(template), len(mark)))
        template += mark
        end = position

    def original(offset: int) -> int:
        return offset - sum(size for start, size in insertions if start <= offset)

    evaluate = _evaluator(template + source[end:], source, original)

    def prepared(scope: Scope) -> ShellText:
        before, *pieces = str(revealed(evaluate(scope))).split(BEGIN)
        parts: list[Part] = [before]
        values: list[Any] = []
        for piece in pieces:
            value, _, text = piece.partition(END)
            parts += [len(values), text]
            values.append(json.loads(value))
        offsets = [0] * len(values)
        return _assemble(Scanner(parts, offsets, source).plan(), values.__getitem__, source, offsets)

    return prepared


def _check_statements(source: str, lexemes: list[Lexeme]) -> None:
    """Statements that take text as a value would capture our marks."""
    if BEGIN in source or END in source:
        raise TemplateSyntax("a command cannot have control characters", source, 0)
    words = [lexeme for lexeme in lexemes if lexeme.type != "whitespace"]
    for number, lexeme in enumerate(words):
        if lexeme.type != "block_begin":
            continue
        tag = words[number + 1]
        rest = words[number : next(i for i in range(number, len(words)) if words[i].type == "block_end")]
        if tag.text == "filter" or (tag.text == "set" and not any(word.text == "=" for word in rest)):
            hint = "set a value, `{% set x = ... %}`, or use `if` and `for`"
            raise TemplateSyntax(f"a block of '{tag.text}' cannot be used in a command", source, tag.offset, hint)


def _assemble(plan: Plan, value_of: Callable[[int], Any], source: str, offsets: list[int]) -> ShellText:
    """The text with references in place of the templates, and the variables they refer to."""
    out: list[str] = []
    env: dict[str, str] = {}

    def reference(value: str, context: Context) -> str:
        name = f"NOETL_{len(env) + 1}"
        env[name] = value
        return REFERENCES[context] % name

    for part in plan:
        if isinstance(part, str):
            out.append(part)
            continue
        value = revealed(value_of(part.number))
        try:
            if part.context == "alone" and isinstance(value, list | tuple):
                out.append(" ".join(reference(_text(revealed(item)), "outside") for item in value))
            else:
                out.append(reference(_number(value) if part.context == "number" else _text(value), part.context))
        except Exception as error:
            raise located(error, source, offsets[part.number]) from None
    return ShellText("".join(out), env)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            message = "binary content cannot be a word of a command"
            raise Fault(message, "write it to a file, or use `stdin`") from None
    if isinstance(value, str):
        if "\0" in value:
            raise Fault("a word of a command cannot contain the character NUL")
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
        raise Fault("inside $(( )) a template must give a whole number", "convert it with `| int`")
    return str(value)
