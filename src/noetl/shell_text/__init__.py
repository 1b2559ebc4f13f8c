"""Commands for a shell whose templates are data.

    prepare_shell("tar -cf {{ name }} 'in {{ folder }}'")(scope)
    -> ShellText(text='''tar -cf "${NOETL_1}" 'in '"${NOETL_2}"\'\'''', env={"NOETL_1": ..., "NOETL_2": ...})

A value never becomes a part of the text that the shell reads, nor of a process's arguments. It goes into an environment
variable, and the text has a reference to that variable, quoted for its position: `"${NOETL_1}"` outside quotes,
`${NOETL_1}` inside double quotes and in a here-document, `'"${NOETL_1}"'` inside single quotes. A hostile value is at
worst an odd word. To find the position, the command is scanned as a shell reads it.

A list that is a whole word outside quotes becomes several words, one per item. Anywhere else a list is its JSON, as
a map is everywhere. Null is empty text, which cannot be the program, a boolean `true` or `false`. Inside `$(( ))` only
a whole number is allowed. In a comment nothing is rendered.

Some positions cannot be safe however they are quoted, because the value is read as code later: the argument of `eval`
or of `sh -c`, a here-document for `bash`, a subscript of an array, the word after `>&`, a command inside `$(( ))`. A
template there is refused when it is prepared. Variables are not followed: `x={{ value }}; eval "$x"` is up to the
author.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from noetl.errors import TemplateSyntax
from noetl.expression import Budget, Contents, revealed
from noetl.expression.budget import budget_in
from noetl.expression.lexer import has_syntax, lex
from noetl.expression.pieces import TemplateValue, compile_pieces
from noetl.expression.text import to_json
from noetl.expression.values import Fault, located
from noetl.shell_text.code import TEMPLATE, by_programs
from noetl.shell_text.scan import Context, Plan, Scanner, TemplateUse

REFERENCES: dict[Context, str] = {
    "program": '"${%s}"',
    "alone": '"${%s}"',
    "outside": '"${%s}"',
    "inside": "${%s}",
    "single": "'\"${%s}\"'",
    "number": "(${%s})",
}

PROGRAM_HINT = "give it the name of a program or a list of words, write a `default(...)`, or skip the task by a rule"
Scope = Mapping[str, Any]


class ShellText(NamedTuple):
    text: str
    env: dict[str, str]


def prepare_shell(source: str) -> Callable[[Scope], ShellText]:
    """A function that binds values. TemplateSyntax for text that does not parse or cannot be safe."""
    if not has_syntax(source):
        return lambda scope: ShellText(source, {})
    evaluate, printed = compile_pieces(source, "a command")
    fixed = None  # the plan, unless the text depends on values
    in_comments: set[int] = set()
    if printed is not None:
        fixed = Scanner(printed, source).plan()
        used = {use.number for use in fixed if isinstance(use, TemplateUse)}
        templates = [piece for piece in printed if isinstance(piece, TemplateValue)]
        in_comments = {template.offset for number, template in enumerate(templates) if number not in used}

    def bind(scope: Scope) -> ShellText:
        budget = budget_in(scope)
        pieces = evaluate(scope, budget, in_comments).pieces
        plan = Scanner(pieces, source).plan() if fixed is None else fixed
        values = [piece.value for piece in pieces if isinstance(piece, TemplateValue)]
        return _assemble(plan, values, source, budget.contents)

    return bind


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


def _assemble(plan: Plan, values: list[Any], source: str, contents: Contents) -> ShellText:
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
        value = values[part.number]
        try:
            if part.context in ("program", "alone") and isinstance(value, list | tuple):
                words = [_text(revealed(item, contents), contents) for item in value]
            else:
                words = [_number(value) if part.context == "number" else _text(value, contents)]
            if part.context == "program" and words[:1] == [""]:
                value_words = "null" if value is None else "empty text"
                raise Fault(f"the command has no program: its first word is {value_words}", PROGRAM_HINT)
            out.append(" ".join(reference(word, part.context) for word in words))
        except Exception as error:
            raise located(error, source, part.offset) from None
    return ShellText("".join(out), env)


def _text(value: Any, contents: Contents) -> str:
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
    return str(value) if isinstance(value, int | float) else to_json(value, Budget(contents=contents))


def _number(value: Any) -> str:
    """Only digits: some shells evaluate a variable that they use as a number."""
    if isinstance(value, str) and re.fullmatch(r"\s*[-+]?[0-9]{1,18}\s*", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Fault("inside $(( )) a template must give a whole number", "convert it with `| int`")
    return str(value)
