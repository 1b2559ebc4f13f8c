"""Source text to the syntax tree, with exact character offsets and messages for people.

Plain `{{ }}` expressions have a lexer and a parser of their own (`parser.py`). All other templates, and
every mistake, go through Jinja's (`jinja.py`), which is imported when the first of them comes: it takes a third of the
time in which `noetl validate` starts.
"""

from __future__ import annotations

import re

from noetl.errors import TemplateSyntax
from noetl.expression import nodes
from noetl.expression.parser import CONSTANTS, KEYWORDS, OPEN, Lexeme, Parser, Unusual, scan

SOURCE_CHARACTERS = 1 << 16
MAX_NESTING = 32  # brackets and blocks; Jinja's parser takes 13 Python frames per bracket
MAX_PREFIXES = 32  # `not not not`, `- - -`
MAX_ELSES = 64  # a if b else c if d else ...


def has_syntax(source: str) -> bool:
    """Whether the text is more than a constant."""
    return "{{" in source or "{%" in source or "{#" in source


def syntax_tree(source: str) -> nodes.Template:
    """The tree of a template; only ever raises TemplateSyntax."""
    if len(source) > SOURCE_CHARACTERS:
        raise TemplateSyntax(f"the template is longer than {SOURCE_CHARACTERS:,} characters", source, 0)
    if (path := _PATH.fullmatch(source)) and path[1] not in KEYWORDS and path[1] not in CONSTANTS:
        return _path_tree(path)
    lexemes = scan(source)
    if lexemes is not None:
        check_nesting(lexemes, source)
        try:
            return Parser(lexemes).template()
        except (Unusual, RecursionError):
            pass
    from noetl.expression.jinja import jinja_tree

    return jinja_tree(lex(source) if lexemes is None else lexemes, source)


def lex(source: str) -> list[Lexeme]:
    """The raw tokens with their offsets."""
    lexemes = scan(source)
    if lexemes is not None:
        return lexemes
    from noetl.expression.jinja import jinja_lexemes

    return jinja_lexemes(source)


# Half of all templates are one plain path, whose tree needs no parser.
_PATH = re.compile(r"\{\{\s*([A-Za-z_]\w*)((?:\.[A-Za-z_]\w*)*)\s*\}\}", re.ASCII)


def _path_tree(path: re.Match[str]) -> nodes.Template:
    node: nodes.Expr = nodes.Name(path.start(1), path[1])
    offset = path.start(2)
    for attribute in path[2].split(".")[1:]:
        node = nodes.Getattr(offset, node, attribute)
        offset += len(attribute) + 1
    return nodes.Template(0, [nodes.Output(path.start(1), [node])])


def check_nesting(words: list[Lexeme], source: str) -> None:
    """Refuse expressions that are nested too deeply or never closed."""
    opened: Lexeme | None = None
    depth = prefixes = elses = 0
    for word in words:
        if word.type in ("variable_begin", "block_begin"):
            opened, prefixes, elses = word, 0, 0
        elif word.type in ("variable_end", "block_end"):
            opened = None
        elif word.type == "operator":
            depth += (word.text in OPEN) - (word.text in ")]}")
        elses += word.text == "else"
        prefixes = prefixes + 1 if word.text in ("not", "-", "+") else 0
        if depth > MAX_NESTING or prefixes > MAX_PREFIXES or elses > MAX_ELSES:
            raise TemplateSyntax("the expression is nested too deeply", source, word.offset)
    if opened is None:
        return
    if brackets := open_brackets(words):
        raise unclosed(brackets[-1], source)
    closing = "}}" if opened.type == "variable_begin" else "%}"
    raise TemplateSyntax(f"'{opened.text[:2]}' is never closed", source, opened.offset, f"add '{closing}'")


def unclosed(lexeme: Lexeme, source: str) -> TemplateSyntax:
    closing = OPEN[lexeme.text]
    return TemplateSyntax(f"'{lexeme.text}' is never closed", source, lexeme.offset, f"add '{closing}'")


def open_brackets(lexemes: list[Lexeme]) -> list[Lexeme]:
    stack: list[Lexeme] = []
    for lexeme in lexemes:
        if lexeme.type == "operator" and lexeme.text in OPEN:
            stack.append(lexeme)
        elif lexeme.type == "operator" and lexeme.text in ")]}" and stack:
            stack.pop()
    return stack
