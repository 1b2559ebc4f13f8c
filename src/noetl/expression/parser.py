"""Plain `{{ }}` expressions to tokens and to the syntax tree, at a tenth of what Jinja's lexer and parser take.

It knows what nearly all templates are made of and raises `Unusual` for the rest: statements, mistakes and the odd
corners of the grammar are left to Jinja's own parser (`jinja.py`), which then has the last word and the message.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from noetl.expression import nodes

OPEN = {"(": ")", "[": "]", "{": "}"}
CLOSE = frozenset(OPEN.values())


class Lexeme(NamedTuple):
    """A raw token and its place in the source."""

    offset: int
    end: int
    type: str
    text: str


# Jinja's lexer takes three times as long, and is used for the rest: statements, comments, whitespace control, floats,
# escapes, other alphabets, and every mistake.
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<name>[A-Za-z_]\w*)
    | (?P<operator>//|\*\*|==|!=|>=|<=|[-+/*%~\[\](){}<>=.:|,])
    | (?P<string>'[^'\\]*'|"[^"\\]*")
    | (?P<integer>(?:0|[1-9]\d*)(?![\w.])))""",
    re.ASCII | re.VERBOSE,
)
_RARE = re.compile(r"\{[%#]|\{\{[-+]|[-+]\}\}|\r")


def scan(source: str) -> list[Lexeme] | None:
    """The tokens of text and plain `{{ }}` expressions, without white space; None if the source has more than that."""
    if _RARE.search(source):
        return None
    lexemes: list[Lexeme] = []
    position = 0
    while (opening := source.find("{{", position)) >= 0:
        if opening > position:
            lexemes.append(Lexeme(position, opening, "data", source[position:opening]))
        lexemes.append(Lexeme(opening, opening + 2, "variable_begin", "{{"))
        end = _scan_expression(source, opening + 2, lexemes)
        if end is None:
            return None
        position = end
    if position < len(source):
        lexemes.append(Lexeme(position, len(source), "data", source[position:]))
    return lexemes


def _scan_expression(source: str, position: int, lexemes: list[Lexeme]) -> int | None:
    """Add the tokens of one expression; returns where it ends, None if it is not a plain one."""
    depth = 0
    while (match := _TOKEN.match(source, position)) is not None:
        kind, position = str(match.lastgroup), match.end()
        text = match[kind]
        if kind == "operator":
            if text in OPEN:
                depth += 1
            elif text in CLOSE:
                if depth == 0:
                    break
                depth -= 1
        lexemes.append(Lexeme(position - len(text), position, kind, text))
    if match is None or not source.startswith("}}", position - 1):
        return None
    lexemes.append(Lexeme(position - 1, position + 1, "variable_end", "}}"))
    return position + 1


# --- parser

KEYWORDS = frozenset(["not", "and", "or", "in", "is", "if", "else"])
CONSTANTS = {"true": True, "True": True, "false": False, "False": False, "none": None, "None": None}
INTEGER_DIGITS = 400

_OR, _AND, _NOT, _COMPARE, _SUM, _CONCAT, _PRODUCT, _POWER, _UNARY = range(1, 10)
_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "lteq", ">": "gt", ">=": "gteq", "in": "in", "not": "notin"}
_BINARY = {"or": _OR, "and": _AND, "+": _SUM, "-": _SUM, "**": _POWER, **dict.fromkeys(("*", "/", "//", "%"), _PRODUCT)}
_END = Lexeme(0, 0, "end", "")


class Unusual(Exception):
    """The template has more than plain expressions, or a mistake."""


class Parser:
    """One pass over the tokens of a template, without white space. A text tells a token: no string is a bare word."""

    def __init__(self, words: list[Lexeme]) -> None:
        self.words = iter(words)
        self.word = next(self.words, _END)
        self.text = self.word.text

    def template(self) -> nodes.Template:
        parts: list[nodes.Expr] = []
        while self.word.type != "end":
            word = self.take()
            if word.type == "data":
                parts.append(nodes.TemplateData(word.offset, word.text))
            else:
                parts.append(self.items(explicit=False))
                if self.take().type != "variable_end":
                    self.give_up()
        return nodes.Template(0, [nodes.Output(parts[0].offset, parts)] if parts else [])

    def take(self) -> Lexeme:
        """The current token; the next one becomes current."""
        word = self.word
        self.word = next(self.words, _END)
        self.text = self.word.text
        return word

    def skip(self, text: str) -> bool:
        """Take the current token if it is this one."""
        if self.text != text:
            return False
        self.take()
        return True

    def expect(self, text: str) -> int:
        if self.text != text:
            self.give_up()
        return self.take().offset

    def name(self) -> Lexeme:
        if self.word.type != "name":
            self.give_up()
        return self.take()

    def give_up(self) -> NoReturn:
        raise Unusual

    # --- expressions

    def expression(self) -> nodes.Expr:
        offset, value = self.word.offset, self.binary(_OR)
        while self.skip("if"):
            test = self.binary(_OR)
            otherwise = self.expression() if self.skip("else") else None
            value = nodes.CondExpr(offset, test, value, otherwise)
        return value

    def binary(self, level: int) -> nodes.Expr:
        """Operands joined by operators that bind at least as tightly as `level`."""
        offset = self.word.offset
        if self.text == "not" and level <= _NOT:
            self.take()
            left: nodes.Expr = nodes.Unary(offset, "not", self.binary(_NOT))
        else:
            left = self.unary()
        while True:
            text = self.text
            if text in _BINARY:
                if _BINARY[text] < level:
                    return left
                self.take()
                left = nodes.Binary(offset, text, left, self.binary(_NOT if text == "and" else _BINARY[text] + 1))
            elif text in _COMPARISONS:
                if level > _COMPARE:
                    return left
                left = nodes.Compare(offset, left, self.operands())
            elif text == "~":
                if level > _CONCAT:
                    return left
                values = [left]
                while self.skip("~"):
                    values.append(self.binary(_PRODUCT))
                left = nodes.Concat(offset, values)
            else:
                return left

    def operands(self) -> list[nodes.Operand]:
        operands = []
        while self.text in _COMPARISONS:
            word = self.take()
            if word.text == "not":
                self.expect("in")
            operands.append(nodes.Operand(word.offset, _COMPARISONS[word.text], self.binary(_SUM)))
        return operands

    def unary(self, filtered: bool = True) -> nodes.Expr:
        offset = self.word.offset
        if self.text in ("-", "+"):
            node: nodes.Expr = nodes.Unary(offset, self.take().text, self.unary(False))
        else:
            node = self.postfix(self.primary())
        while filtered:
            if self.text == "|":
                node = self.filter(node)
            elif self.text == "is":
                node = self.test(node)
            elif self.text == "(":
                node = self.call(node)
            else:
                break
        return node

    def primary(self) -> nodes.Expr:
        word = self.take()
        match word.type:
            case "name" if word.text in CONSTANTS:
                return nodes.Const(word.offset, CONSTANTS[word.text])
            case "name" if word.text not in KEYWORDS:
                return nodes.Name(word.offset, word.text)
            case "string":
                text = word.text[1:-1]
                while self.word.type == "string":
                    text += self.take().text[1:-1]
                return nodes.Const(word.offset, text)
            case "integer" if len(word.text) <= INTEGER_DIGITS:
                return nodes.Const(word.offset, int(word.text))
            case "operator" if word.text == "(":
                value = self.items(explicit=True)
                self.expect(")")
                return value
            case "operator" if word.text == "[":
                return nodes.List(word.offset, self.listed("]", self.expression))
            case "operator" if word.text == "{":
                return nodes.Dict(word.offset, self.listed("}", self.pair))
        raise Unusual

    def items(self, explicit: bool) -> nodes.Expr:
        """One expression, or several with commas; `explicit`: in parentheses, where none is an empty tuple."""
        offset, items, commas = self.word.offset, list[nodes.Expr](), False
        while self.text != ")" and self.word.type != "variable_end":
            items.append(self.expression())
            if not self.skip(","):
                break
            commas = True
        if not commas and len(items) == 1:
            return items[0]
        return nodes.Tuple(offset, items) if items or explicit else self.give_up()

    def listed(self, closing: str, item: Callable[[], nodes.Kind]) -> list[nodes.Kind]:
        items: list[nodes.Kind] = []
        while not self.skip(closing):
            items.append(item())
            if self.text != closing:
                self.expect(",")
        return items

    def pair(self) -> nodes.Pair:
        key = self.expression()
        self.expect(":")
        return nodes.Pair(key.offset, key, self.expression())

    def postfix(self, node: nodes.Expr) -> nodes.Expr:
        while True:
            if self.text == ".":
                node = self.attribute(node)
            elif self.text == "[":
                offset = self.take().offset
                arg = self.subscript()
                self.expect("]")
                node = nodes.Getitem(offset, node, arg)
            elif self.text == "(":
                node = self.call(node)
            else:
                return node

    def attribute(self, node: nodes.Expr) -> nodes.Expr:
        offset = self.take().offset
        if self.word.type == "integer":
            return nodes.Getitem(offset, node, self.primary())
        return nodes.Getattr(offset, node, self.name().text)

    def subscript(self) -> nodes.Expr:
        offset = self.word.offset
        first = None if self.text == ":" else self.expression()
        if first is not None and self.text != ":":
            return first
        self.take()
        stop = None if self.text in (":", "]") else self.expression()
        step = self.expression() if self.skip(":") and self.text != "]" else None
        return nodes.Slice(offset, first, stop, step)

    def call(self, node: nodes.Expr) -> nodes.Expr:
        return nodes.Call(self.word.offset, node, *self.arguments())

    def arguments(self) -> tuple[list[nodes.Expr], list[nodes.Keyword]]:
        self.expect("(")
        args: list[nodes.Expr] = []
        kwargs: list[nodes.Keyword] = []
        while not self.skip(")"):
            first, value = self.word, self.expression()
            if self.text == "=" and isinstance(value, nodes.Name) and value.offset == first.offset:
                self.take()
                kwargs.append(nodes.Keyword(value.offset, value.name, self.expression()))
            elif kwargs:
                self.give_up()
            else:
                args.append(value)
            if self.text != ")":
                self.expect(",")
        return args, kwargs

    def dotted_name(self) -> Lexeme:
        word = self.name()
        return self.give_up() if self.text == "." else word

    def filter(self, node: nodes.Expr) -> nodes.Expr:
        self.take()
        word = self.dotted_name()
        args, kwargs = self.arguments() if self.text == "(" else ([], [])
        return nodes.Filter(word.offset, node, word.text, args, kwargs)

    def test(self, node: nodes.Expr) -> nodes.Expr:
        offset = self.take().offset
        negated = self.skip("not")
        name = self.dotted_name().text
        args: list[nodes.Expr] = []
        kwargs: list[nodes.Keyword] = []
        if self.text == "(":
            args, kwargs = self.arguments()
        elif self.text in ("[", "{") or (self.word.type != "operator" and self.text not in ("else", "or", "and", "}}")):
            args = [self.postfix(self.primary())]
        test = nodes.Test(offset, node, name, args, kwargs)
        return nodes.Unary(offset, "not", test) if negated else test
