"""Parses expressions to the syntax tree. The grammar is Jinja's, without what playbooks do not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from noetl.errors import TemplateSyntax
from noetl.expression import nodes
from noetl.expression.lexer import Lexeme, number, string
from noetl.expression.nodes import start

CONSTANTS = {"true": True, "True": True, "false": False, "False": False, "none": None, "None": None}
_OR, _AND, _NOT, _COMPARE, _SUM, _CONCAT, _PRODUCT, _POWER = range(1, 9)
_COMPARISONS = frozenset(["==", "!=", "<", "<=", ">", ">=", "in", "not"])
_BINARY = {"or": _OR, "and": _AND, "+": _SUM, "-": _SUM, "**": _POWER, **dict.fromkeys(("*", "/", "//", "%"), _PRODUCT)}
_ENDS = {"variable_end": "}}", "block_end": "%}"}
_ARGUMENTS = frozenset(["name", "string", "integer", "float"])  # of a test, without parentheses

Item = TypeVar("Item")


class ExpressionParser:
    """One pass over the tokens of a template. The text of a token identifies it: a string is never a bare word."""

    def __init__(self, words: list[Lexeme], source: str) -> None:
        self.words, self.source = [*words, Lexeme(len(source), len(source), "end", "")], source
        self.place = 0
        self.word = self.words[0]
        self.text = self.word.text

    def take(self) -> Lexeme:
        word = self.word
        self.place += 1
        self.word = self.words[self.place]
        self.text = self.word.text
        return word

    def skip(self, text: str) -> bool:
        if self.text != text:
            return False
        self.take()
        return True

    def expect(self, text: str) -> int:
        if self.text != text:
            self.unexpected(f"'{text}'")
        return self.take().offset

    def expect_type(self, kind: str) -> Lexeme:
        if self.word.type != kind:
            self.unexpected(f"'{_ENDS.get(kind, kind)}'")
        return self.take()

    def unexpected(self, expected: str) -> NoReturn:
        hint = None
        if self.text == "=":
            hint = "write '==' to compare"
        elif expected in ("'}}'", "'%}'"):
            hint = "join texts with '~', combine conditions with 'and' or 'or'"
        self.fail(f"unexpected '{self.described()}', expected {expected}", hint)

    def described(self) -> str:
        kind = self.word.type
        return self.text[:40] if kind in ("name", "operator") else _ENDS.get(kind, kind)

    def fail(self, message: str, hint: str | None = None, offset: int | None = None) -> NoReturn:
        raise TemplateSyntax(message, self.source, self.word.offset if offset is None else offset, hint)

    def expression(self) -> nodes.Expr:
        offset, value = self.word.offset, self.operation()
        branches = []
        while self.skip("if"):
            test = self.operation()
            if self.skip("else"):
                branches.append((offset, test, value))
                offset, value = self.word.offset, self.operation()
            else:
                value = nodes.CondExpr(offset, test, value, None)
        for offset, test, branch in reversed(branches):
            value = nodes.CondExpr(offset, test, branch, value)
        return value

    def operation(self, level: int = _OR) -> nodes.Expr:
        """Operands joined by operators that bind at least as tightly as `level`."""
        offset = self.word.offset
        if self.text == "not" and level <= _NOT:
            node: nodes.Expr = self.negation()
        else:
            node = self.unary()
        while True:
            text = self.text
            if text in _BINARY:
                if _BINARY[text] < level:
                    return node
                self.take()
                right = self.operation(_NOT if text == "and" else _BINARY[text] + 1)
                node = nodes.Binary(offset, text, node, right)
            elif text in _COMPARISONS:
                if level > _COMPARE or (text == "not" and self.words[self.place + 1].text != "in"):
                    return node
                operands = []
                while self.text in _COMPARISONS:
                    op = "not in" if self.text == "not" else self.text
                    self.take()
                    if op == "not in":
                        self.expect("in")
                    operands.append((op, self.operation(_SUM)))
                node = nodes.Compare(offset, node, operands)
            elif text == "~":
                if level > _CONCAT:
                    return node
                values = [node]
                while self.skip("~"):
                    values.append(self.operation(_PRODUCT))
                node = nodes.Concat(offset, values)
            else:
                return node

    def negation(self) -> nodes.Expr:
        offsets = []
        while self.text == "not":
            offsets.append(self.take().offset)
        node = self.operation(_COMPARE)
        for offset in reversed(offsets):
            node = nodes.Unary(offset, "not", node)
        return node

    def unary(self) -> nodes.Expr:
        signs = []
        while self.text in ("-", "+"):
            signs.append(self.take())
        node = self.postfix(self.primary())
        for sign in reversed(signs):
            node = nodes.Unary(sign.offset, sign.text, node)
        while True:
            if self.skip("|"):
                node = self.filter(node)
            elif self.text == "is":
                node = self.test(node)
            elif self.text == "(":
                node = self.call(node)
            else:
                return node

    def primary(self) -> nodes.Expr:
        word = self.word
        match word.type:
            case "name":
                self.take()
                if word.text in CONSTANTS:
                    return nodes.Const(word.offset, CONSTANTS[word.text])
                return nodes.Name(word.offset, word.text)
            case "string":
                text = string(self.take(), self.source)
                while self.word.type == "string":
                    text += string(self.take(), self.source)
                return nodes.Const(word.offset, text)
            case "integer" | "float":
                return nodes.Const(word.offset, number(self.take(), self.source))
            case "operator" if self.skip("("):
                value = self.items(self.expression, explicit=True)
                self.expect(")")
                return value
            case "operator" if self.skip("["):
                return nodes.List(word.offset, self.listed("]", self.expression))
            case "operator" if self.skip("{"):
                return nodes.Dict(word.offset, self.listed("}", self.pair))
        return self.fail(f"unexpected '{self.text}'" if word.type == "operator" else "an expression is missing here")

    def items(self, item: Callable[[], nodes.Expr], explicit: bool = False) -> nodes.Expr:
        """One item, or a tuple of several with commas; `explicit`: in parentheses, where none is an empty tuple."""
        offset, items, commas = self.word.offset, list[nodes.Expr](), False
        while self.text != ")" and self.word.type not in _ENDS:
            items.append(item())
            if not self.skip(","):
                break
            commas = True
        if not commas and len(items) == 1:
            return items[0]
        return nodes.Tuple(offset, items) if items or explicit else self.fail("an expression is missing here")

    def listed(self, closing: str, item: Callable[[], Item]) -> list[Item]:
        items: list[Item] = []
        while not self.skip(closing):
            items.append(item())
            if self.text != closing:
                self.expect(",")
        return items

    def separated(self, closing: str, item: Callable[[], Item]) -> list[Item]:
        """Items up to a token or the end of the tag, without a comma behind the last."""
        items: list[Item] = []
        while self.text != closing and self.word.type not in _ENDS:
            if items:
                self.expect(",")
            items.append(item())
        return items

    def pair(self) -> tuple[nodes.Expr, nodes.Expr]:
        key = self.expression()
        self.expect(":")
        return key, self.expression()

    def postfix(self, node: nodes.Expr) -> nodes.Expr:
        while True:
            if self.text == ".":
                offset = self.take().offset
                if self.word.type == "integer":
                    node = nodes.Getitem(offset, node, self.primary())
                elif self.word.type == "name":
                    node = nodes.Getattr(offset, node, self.take().text)
                else:
                    self.fail("expected name or number")
            elif self.text == "[":
                node = self.subscript(node)
            elif self.text == "(":
                node = self.call(node)
            else:
                return node

    def subscript(self, node: nodes.Expr) -> nodes.Expr:
        offset, keys = self.take().offset, self.separated("]", self.key)
        self.take()
        return nodes.Getitem(offset, node, keys[0] if len(keys) == 1 else nodes.Tuple(offset, keys))

    def key(self) -> nodes.Expr:
        offset = self.word.offset
        first = None if self.text == ":" else self.expression()
        if first is not None and self.text != ":":
            return first
        self.take()
        stop = None if self.text in (":", "]", ",") else self.expression()
        step = self.expression() if self.skip(":") and self.text not in ("]", ",") else None
        return nodes.Slice(offset, first, stop, step)

    def call(self, node: nodes.Expr) -> nodes.Expr:
        return nodes.Call(self.word.offset, node, *self.arguments(node))

    def arguments(self, subject: nodes.Expr | None) -> tuple[list[nodes.Expr], dict[str, nodes.Expr]]:
        opening = self.expect("(")
        args: list[nodes.Expr] = []
        kwargs: dict[str, nodes.Expr] = {}
        while not self.skip(")"):
            if self.text in ("*", "**"):
                offset = opening if subject is None else start(subject)
                self.fail("'*' and '**' arguments are not available in playbooks", offset=offset)
            if self.word.type == "name" and self.words[self.place + 1].text == "=":
                name = self.take().text
                self.take()
                if name in kwargs:
                    self.fail("an argument is given twice", offset=opening if subject is None else start(subject))
                kwargs[name] = self.expression()
            elif kwargs:
                self.fail("a positional argument follows a named one", offset=opening)
            else:
                args.append(self.expression())
            if self.text != ")":
                self.expect(",")
        return args, kwargs

    def dotted_name(self) -> Lexeme:
        word = self.expect_type("name")
        while self.skip("."):
            word = word._replace(text=f"{word.text}.{self.expect_type('name').text}")
        return word

    def filter(self, node: nodes.Expr | None) -> nodes.Filter:
        word = self.dotted_name()
        args, kwargs = self.arguments(node) if self.text == "(" else ([], {})
        return nodes.Filter(word.offset, node, word.text, args, kwargs)

    def test(self, node: nodes.Expr) -> nodes.Expr:
        offset = self.take().offset
        negated = self.skip("not")
        name = self.dotted_name().text
        args: list[nodes.Expr] = []
        kwargs: dict[str, nodes.Expr] = {}
        if self.text == "(":
            args, kwargs = self.arguments(node)
        elif self.text == "is":
            self.fail("you cannot chain multiple tests with is")
        elif self.text in ("[", "{") or (self.word.type in _ARGUMENTS and self.text not in ("else", "or", "and")):
            args = [self.postfix(self.primary())]
        test = nodes.Test(offset, node, name, args, kwargs)
        return nodes.Unary(offset, "not", test) if negated else test
