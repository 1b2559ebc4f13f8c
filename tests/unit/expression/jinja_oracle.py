"""Jinja's own lexer and parser, with character offsets instead of line numbers, as the oracle of ours."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment
from jinja2 import nodes as jinja
from jinja2.exceptions import TemplateSyntaxError
from jinja2.lexer import Token, TokenStream, ignored_tokens, operators
from jinja2.parser import Parser

from noetl.expression import nodes
from noetl.expression.lexer import Lexeme, number, string

LEXER = Environment(keep_trailing_newline=True).lexer
SYMBOLS = {"eq": "==", "ne": "!=", "lt": "<", "lteq": "<=", "gt": ">", "gteq": ">=", "in": "in", "notin": "not in"}
IGNORED = ignored_tokens | {"raw_begin", "raw_end"}


def jinja_lexemes(source: str) -> list[Lexeme]:
    """Jinja's tokens of a source without `\\r`. TemplateSyntaxError."""
    lexemes = []
    position = 0
    for _, kind, text in LEXER.tokeniter(source, None):
        start = source.find(text, position)
        position = start + len(text)
        lexemes.append(Lexeme(start, position, kind, text))
    return [lexeme for lexeme in lexemes if lexeme.type not in IGNORED]


def jinja_tree(source: str) -> nodes.Root:
    """The tree that Jinja's parser makes, in our nodes. TemplateSyntaxError."""
    tree = _OffsetParser([_token(lexeme, source) for lexeme in jinja_lexemes(source)]).subparse()
    return nodes.Root(0, [_converted(node) for node in tree])


def _token(lexeme: Lexeme, source: str) -> Token:
    value: Any = lexeme.text
    match lexeme.type:
        case "operator":
            return Token(lexeme.offset, operators[lexeme.text], value)
        case "name" if not value.isidentifier():
            raise TemplateSyntaxError("not a name", lexeme.offset)
        case "string":
            value = string(lexeme, source)
        case "integer" | "float":
            value = number(lexeme, source)
    return Token(lexeme.offset, lexeme.type, value)


class _Stream(Environment):
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.extensions: dict[str, Any] = {}

    def _tokenize(self, *args: Any, **kwargs: Any) -> TokenStream:
        return TokenStream(iter(self.tokens), None, None)


class _OffsetParser(Parser):
    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(_Stream(tokens), "")


def _converted(node: Any) -> Any:
    if isinstance(node, list):
        return [_converted(item) for item in node]
    if not isinstance(node, jinja.Node):
        return node
    if isinstance(node, jinja.BinExpr):
        return nodes.Binary(node.lineno, node.operator, _converted(node.left), _converted(node.right))
    if isinstance(node, jinja.UnaryExpr):
        return nodes.Unary(node.lineno, node.operator, _converted(node.node))
    if isinstance(node, jinja.Pair):
        return _converted(node.key), _converted(node.value)
    if isinstance(node, jinja.Keyword):
        return node.key, _converted(node.value)
    if isinstance(node, jinja.Operand):
        return SYMBOLS[node.op], _converted(node.expr)
    own = getattr(nodes, type(node).__name__)
    fields = {field: _converted(getattr(node, field)) for field in own.__struct_fields__[1:]}
    if "kwargs" in fields:
        fields["kwargs"] = dict(fields["kwargs"])
    return own(node.lineno or 0, **fields)
