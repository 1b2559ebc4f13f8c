"""Jinja's lexer and parser, for statements, rare syntax, and the messages of mistakes.

Jinja counts lines; a playbook's author wants the column too. So we walk the raw tokens of Jinja's lexer,
find each in the source, and hand the parser tokens whose `lineno` is their character offset. From then on
every node's `lineno` is an offset. Mistakes that Jinja explains poorly (unclosed things, `&&`, `=`) and
constructs that playbooks do not have are found in the tokens, before the parser sees them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from math import isfinite
from typing import Any, NoReturn

from jinja2 import Environment
from jinja2 import nodes as jinja_nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.lexer import Token, TokenStream, operators
from jinja2.parser import Parser

from noetl.errors import TemplateSyntax
from noetl.expression import nodes
from noetl.expression.analysis import start
from noetl.expression.parser import Lexeme
from noetl.expression.parsing import MAX_NESTING, check_nesting, open_brackets, unclosed

NUMBER_CHARACTERS = 1233  # digits of 4096 bits

_BLOCKS = frozenset({"if", "for", "with", "filter", "set"})
_REFUSED = {
    "macro": "macros are not available in playbooks; use a workbook task",
    "call": "call blocks are not available in playbooks",
    "include": "a playbook string can't include another template",
    "import": "a playbook string can't import another template",
    "from": "a playbook string can't import another template",
    "extends": "a playbook string can't extend another template",
    "block": "template blocks are not available in playbooks",
    "do": "the 'do' statement is not available in playbooks; templates have no side effects",
    "autoescape": "autoescape is not available; use the filter 'escape'",
    "trans": "translations are not available in playbooks",
    "pluralize": "translations are not available in playbooks",
    "debug": "the debug statement is not available in playbooks",
    "break": "loops in templates have no break; filter with {% for x in xs if ... %}",
    "continue": "loops in templates have no continue; filter with {% for x in xs if ... %}",
}
_CHARACTER_HINTS = {
    "&": "write 'and' instead of '&&'",
    "!": "write 'not' instead of '!'",
    "?": "write 'a if condition else b'",
    "$": "write the name without '$'",
    "'": "the string that starts here is never closed",
    '"': "the string that starts here is never closed",
    "`": "use ' or \" for strings",
}
_IGNORED = frozenset({"comment_begin", "comment", "comment_end", "whitespace", "raw_begin", "raw_end", "linecomment"})


@cache
def _environment() -> Environment:
    return Environment(keep_trailing_newline=True)


def jinja_tree(lexemes: list[Lexeme], source: str) -> nodes.Template:
    """The tree that Jinja's parser makes of the tokens; raises TemplateSyntax."""
    words = [lexeme for lexeme in lexemes if lexeme.type not in _IGNORED]
    check_nesting(words, source)
    _check_operators(words, source)
    _check_statements(words, source)
    tokens = [_token(word, source) for word in words]
    try:
        tree = _OffsetParser(tokens).parse()
        return nodes.Template(0, [_converted(node, source) for node in tree.body])
    except TemplateSyntaxError as error:
        raise _explained(error, source) from None
    except TemplateSyntax:
        raise
    except RecursionError:
        raise TemplateSyntax("the template is nested too deeply", source, 0) from None
    except Exception as error:  # a defect in Jinja's parser is still the author's template
        raise TemplateSyntax(f"the template can't be parsed: {error}", source, 0) from None


def _converted(node: Any, source: str) -> Any:
    """A node of Jinja's as one of ours."""
    if isinstance(node, list):
        return [_converted(item, source) for item in node]
    if not isinstance(node, jinja_nodes.Node):
        return node
    name, offset = type(node).__name__, node.lineno or 0
    if isinstance(node, jinja_nodes.BinExpr):
        return nodes.Binary(offset, node.operator, _converted(node.left, source), _converted(node.right, source))
    if isinstance(node, jinja_nodes.UnaryExpr):
        return nodes.Unary(offset, node.operator, _converted(node.node, source))
    own = getattr(nodes, name, None)
    if own is None:
        raise TemplateSyntax(f"'{name.lower()}' is not available in playbooks", source, offset)
    converted = own(offset, *(_converted(getattr(node, field), source) for field in own.__struct_fields__[1:]))
    if getattr(node, "dyn_args", None) or getattr(node, "dyn_kwargs", None):
        raise TemplateSyntax("'*' and '**' arguments are not available in playbooks", source, start(converted))
    return converted


class _Stream(Environment):
    """An environment whose token stream is already there."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.extensions: dict[str, Any] = {}

    def _tokenize(self, *args: Any, **kwargs: Any) -> TokenStream:
        return TokenStream(iter(self.tokens), None, None)


class _OffsetParser(Parser):
    """Jinja's parser over tokens that count characters."""

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(_Stream(tokens), "")

    def parse(self) -> jinja_nodes.Template:
        return jinja_nodes.Template(self.subparse(), lineno=0)


# --- lexing ------------------------------------------------------------------------------------------


def jinja_lexemes(source: str) -> list[Lexeme]:
    place = _places(source)
    normal = source.replace("\r\n", "\n").replace("\r", "\n")  # as the lexer does
    lexemes: list[Lexeme] = []
    position = 0
    tokens = _environment().lexer.tokeniter(source, None)
    while True:
        try:
            _, kind, text = next(tokens)
        except StopIteration:
            return lexemes
        except TemplateSyntaxError as error:
            _fail_lexing(str(error.message), lexemes, source, place(position), normal[position : position + 1])
        except Exception as error:
            raise TemplateSyntax(f"the template can't be read: {error}", source, place(position)) from None
        start = normal.find(text, position)
        position = start + len(text)
        lexemes.append(Lexeme(place(start), place(position), kind, text))


def _places(source: str) -> Callable[[int], int]:
    """From offsets in the text with line ends normalised to offsets in the source."""
    if "\r\n" not in source:
        return lambda offset: offset
    ends = [match.start() for match in re.finditer("\r\n", source)]
    shifted = [end - number for number, end in enumerate(ends)]  # the place of each after normalising
    return lambda offset: offset + bisect_right(shifted, offset - 1)


def _fail_lexing(message: str, lexemes: list[Lexeme], source: str, offset: int, character: str) -> NoReturn:
    opened = [lexeme for lexeme in lexemes if lexeme.type.endswith("_begin")]
    start = opened[-1] if opened else None
    if message.startswith("Missing end of") and start is not None:
        closing = "'#}'" if start.type == "comment_begin" else "'{% endraw %}'"
        raise TemplateSyntax(f"'{start.text.strip()}' is never closed", source, start.offset, f"add {closing}")
    brackets = open_brackets(lexemes)
    if "expected" in message and brackets:
        raise unclosed(brackets[-1], source)
    if message.startswith("unexpected '") and start is not None:
        closing = "}}" if start.type == "variable_begin" else "%}"
        hint = f"close '{start.text[:2]}' with '{closing}'" if character == "}" else None
        raise TemplateSyntax(f"unexpected '{character}'", source, offset, hint)
    raise TemplateSyntax(f"unexpected character {character!r}", source, offset, _CHARACTER_HINTS.get(character))


# --- checks on the raw tokens ------------------------------------------------------------------------


def _check_operators(words: list[Lexeme], source: str) -> None:
    for word, following in pairwise(words):
        if word.type != "operator" or following.type != "operator" or word.end != following.offset:
            continue
        if word.text == following.text == "|":
            raise TemplateSyntax("'||' is not an operator", source, word.offset, "write 'or' instead of '||'")
        if word.text == following.text == "{":
            raise TemplateSyntax(
                "'{{' inside an expression", source, word.offset, "inside '{{ }}' write names without braces"
            )


def _check_statements(words: list[Lexeme], source: str) -> None:
    stack: list[Lexeme] = []
    for number, word in enumerate(words[:-1]):
        if word.type != "block_begin" or words[number + 1].type != "name":
            continue
        tag = words[number + 1]
        if tag.text in _REFUSED:
            raise TemplateSyntax(_REFUSED[tag.text], source, tag.offset)
        if tag.text in _BLOCKS and not (tag.text == "set" and _assigns(words, number)):
            stack.append(tag)
        elif tag.text.startswith("end") and stack and tag.text == f"end{stack[-1].text}":
            stack.pop()
        if len(stack) > MAX_NESTING:
            raise TemplateSyntax("the blocks are nested too deeply", source, tag.offset)
    if stack and not _mismatched(words, stack):
        tag = stack[-1]
        raise TemplateSyntax(
            f"'{{% {tag.text} %}}' is never closed", source, tag.offset, f"add '{{% end{tag.text} %}}'"
        )


def _assigns(words: list[Lexeme], number: int) -> bool:
    """Whether the statement that starts here is `set x = ...` and so has no body."""
    for place in range(number, len(words)):
        word = words[place]
        if word.type == "block_end":
            return False
        if word.type == "operator" and word.text == "=":
            return True
        if word.type == "operator" and word.text == "|":
            return False  # {% set x | filter(a=1) %}
    return False


def _mismatched(words: list[Lexeme], stack: list[Lexeme]) -> bool:
    """An end tag of another kind behind the open block: Jinja's message about that is good."""
    behind = (word for word in words if word.offset > stack[-1].offset and word.type == "name")
    return any(word.text in {f"end{tag}" for tag in _BLOCKS} for word in behind)


# --- tokens for the parser ---------------------------------------------------------------------------


def _token(lexeme: Lexeme, source: str) -> Token:
    offset, text = lexeme.offset, lexeme.text
    match lexeme.type:
        case "operator":
            return Token(offset, operators[text], text)
        case "name" if not text.isidentifier():
            raise TemplateSyntax(f"'{text[:40]}' is not a name", source, offset)
        case "string":
            return Token(offset, "string", _unescaped(text[1:-1], source, offset))
        case "integer" | "float":
            return Token(offset, lexeme.type, _number(text, source, offset))
    return Token(offset, lexeme.type, text)


def _number(text: str, source: str, offset: int) -> Any:
    digits = text.replace("_", "")
    if len(digits) > NUMBER_CHARACTERS:
        raise TemplateSyntax("the number is too large", source, offset)
    try:
        is_float = "." in digits or ("e" in digits.lower() and not digits.lower().startswith("0x"))
        value = float(digits) if is_float else int(digits, 0)
    except ValueError:
        raise TemplateSyntax(f"'{text[:40]}' is not a number", source, offset) from None
    if isinstance(value, float) and not isfinite(value):
        raise TemplateSyntax("the number is too large", source, offset)
    return value


_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)", re.S)
_SIMPLE = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "\n": "",
}  # fmt: skip


def _unescaped(text: str, source: str, offset: int) -> str:
    """The value of a string literal. Unknown escapes stay as they are, so '\\d+' needs no doubling."""
    if "\\" not in text:
        return text

    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code in _SIMPLE:
            return _SIMPLE[code]
        if len(code) > 1 or code in "01234567":
            number = int(code, 8) if code[0] in "01234567" else int(code[1:], 16)
            if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
                raise TemplateSyntax(f"'\\{code}' is not a character", source, offset)
            return chr(number)
        if code in "xuU":
            raise TemplateSyntax(f"'\\{code}' needs more hexadecimal digits", source, offset)
        return match[0]

    return _ESCAPE.sub(character, text)


# --- messages ----------------------------------------------------------------------------------------

_GOT = re.compile(r"expected token '(?P<expected>.*)', got '(?P<got>.*)'$", re.S)
_TOKENS = {
    "end of print statement": "'}}'",
    "end of statement block": "'%}'",
    "begin of print statement": "'{{'",
    "begin of statement block": "'{%'",
}


def _explained(error: TemplateSyntaxError, source: str) -> TemplateSyntax:
    message, offset = str(error.message), min(max(error.lineno, 0), len(source))
    if message.startswith(("Expected an expression", "unexpected 'end of")):
        return TemplateSyntax("an expression is missing here", source, offset)
    if match := _GOT.match(message):
        return _unexpected(match["expected"], match["got"], source, offset)
    if message.startswith("Encountered unknown tag"):
        tag = message.split("'")[1]
        hint = message.split(". ", 1)[1].replace("Jinja", "it") if ". " in message else None
        return TemplateSyntax(f"unknown statement '{tag}'", source, offset, hint)
    return TemplateSyntax(message[:1].lower() + message[1:].rstrip("."), source, offset)


def _unexpected(expected: str, got: str, source: str, offset: int) -> TemplateSyntax:
    wanted = _TOKENS.get(expected, f"'{expected}'")
    actual = _TOKENS.get(got, f"'{got[:40]}'")
    hint = None
    if got == "=":
        hint = "write '==' to compare"
    elif expected in ("end of print statement", "end of statement block"):
        hint = "join texts with '~', combine conditions with 'and' or 'or'"
    return TemplateSyntax(f"unexpected {actual}, expected {wanted}", source, offset, hint)
