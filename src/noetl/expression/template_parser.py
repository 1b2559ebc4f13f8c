"""Parses templates to the syntax tree: text, expressions and statements."""

from __future__ import annotations

import re
from collections.abc import Callable

from noetl.errors import TemplateSyntax
from noetl.expression import nodes
from noetl.expression.lexer import MAX_NESTING, Lexeme, lex
from noetl.expression.parser import CONSTANTS, ExpressionParser

SOURCE_CHARACTERS = 1 << 16

_REFUSED = {
    "macro": "macros are not available in playbooks; use a workbook task",
    "call": "call blocks are not available in playbooks",
    "include": "a playbook string cannot include another template",
    **dict.fromkeys(("import", "from"), "a playbook string cannot import another template"),
    "extends": "a playbook string cannot extend another template",
    "block": "template blocks are not available in playbooks",
    "do": "the 'do' statement is not available in playbooks; templates have no side effects",
    "autoescape": "autoescape is not available; use the filter 'escape'",
    **dict.fromkeys(("trans", "pluralize"), "translations are not available in playbooks"),
    "debug": "the debug statement is not available in playbooks",
    "break": "loops in templates have no break; filter with {% for x in xs if ... %}",
    "continue": "loops in templates have no continue; filter with {% for x in xs if ... %}",
}


def syntax_tree(source: str) -> nodes.Root:
    """The tree of a template; only ever raises TemplateSyntax."""
    if len(source) > SOURCE_CHARACTERS:
        raise TemplateSyntax(f"the template is longer than {SOURCE_CHARACTERS:,} characters", source, 0)
    if parts := paths_and_text(source):
        return nodes.Root(0, [nodes.Output(parts[0].offset, parts)])
    try:
        return nodes.Root(0, _TemplateParser(lex(source), source).body())
    except RecursionError:
        raise TemplateSyntax("the template is nested too deeply", source, 0) from None


_PATH = re.compile(r"\{\{\s*([A-Za-z_]\w*)((?:\.[A-Za-z_]\w*)*)\s*\}\}", re.ASCII)


def paths_and_text(source: str) -> list[nodes.Expr] | None:
    """The parts of a template of plain paths and text, as most are: they need no parser. None for any other."""
    if "{%" in source or "{#" in source or "\r" in source:
        return None
    parts: list[nodes.Expr] = []
    position = 0
    for path in _PATH.finditer(source):
        name, begin = path[1], path.start()
        if name == "not" or name in CONSTANTS or path[2].count(".") >= nodes.MAX_KEYS:
            return None
        if begin > position:
            text = source[position:begin]
            if "{{" in text or text[-1] == "{":
                return None
            parts.append(nodes.TemplateData(position, text))
        parts.append(_path(path))
        position = path.end()
    if position < len(source):
        if not parts or source.find("{{", position) >= 0:
            return None
        parts.append(nodes.TemplateData(position, source[position:]))
    return parts


def _path(match: re.Match[str]) -> nodes.Expr:
    node: nodes.Expr = nodes.Name(match.start(1), match[1])
    offset = match.start(2)
    for attribute in match[2].split(".")[1:]:
        node = nodes.Getattr(offset, node, attribute)
        offset += len(attribute) + 1
    return node


class _TemplateParser(ExpressionParser):
    def __init__(self, words: list[Lexeme], source: str) -> None:
        super().__init__(words, source)
        self.open: list[tuple[Lexeme, tuple[str, ...]]] = []  # the tags of open blocks, and what may come next in them

    def body(self, *ends: str) -> list[nodes.Node]:
        """Text, expressions and statements, up to one of these tags: that is the current token then."""
        body: list[nodes.Node] = []
        parts: list[nodes.Expr] = []
        while True:
            word = self.word
            if word.type == "data":
                parts.append(nodes.TemplateData(word.offset, self.take().text))
                continue
            if word.type == "variable_begin":
                self.take()
                parts.append(self.items(self.expression))
                self.expect_type("variable_end")
                continue
            if parts:
                body.append(nodes.Output(parts[0].offset, parts))
                parts = []
            if word.type == "end":
                break
            self.take()
            if self.text in ends:
                return body
            body.append(self.statement())
            self.expect_type("block_end")
        if self.open:
            tag = self.open[-1][0]
            self.fail(f"'{{% {tag.text} %}}' is never closed", f"add '{{% end{tag.text} %}}'", tag.offset)
        return body

    def statement(self) -> nodes.Node:
        if self.word.type != "name":
            self.fail("tag name expected")
        if self.text in _REFUSED:
            self.fail(_REFUSED[self.text])
        if self.text not in _STATEMENTS:
            hint = None
            if self.open:
                tag, ends = self.open[-1]
                hint = f"'{{% {tag.text} %}}' is open here: expected {' or '.join(map(repr, ends))}"
            self.fail(f"unknown statement '{self.text[:40]}'", hint)
        tag = self.take()
        return _STATEMENTS[tag.text](self, tag)

    def block(self, tag: Lexeme, *ends: str) -> list[nodes.Node]:
        """The body of a statement, from the end of its tag up to one of `ends`; a single one is taken."""
        self.skip(":")
        self.expect_type("block_end")
        self.open.append((tag, ends))
        if len(self.open) > MAX_NESTING:
            self.fail("the blocks are nested too deeply", offset=tag.offset)
        body = self.body(*ends)
        self.open.pop()
        if len(ends) == 1:
            self.take()
        return body

    def if_(self, tag: Lexeme) -> nodes.If:
        branches: list[nodes.If] = []
        while not branches or self.skip("elif"):
            offset, condition = self.word.offset if branches else tag.offset, self.items(self.operation)
            branches.append(nodes.If(offset, condition, self.block(tag, "elif", "else", "endif"), [], []))
        node, *node.elif_ = branches
        if self.take().text == "else":
            node.else_ = self.block(tag, "endif")
        return node

    def for_(self, tag: Lexeme) -> nodes.For:
        target = self.items(self.primary)
        self.expect("in")
        values = self.items(self.operation)
        test = self.expression() if self.skip("if") else None
        recursive = self.skip("recursive")
        body = self.block(tag, "endfor", "else")
        otherwise = self.block(tag, "endfor") if self.take().text == "else" else []
        return nodes.For(tag.offset, target, values, body, otherwise, test, recursive)

    def set_(self, tag: Lexeme) -> nodes.Assign | nodes.AssignBlock:
        target = self.items(self.name_or_field)
        if self.skip("="):
            return nodes.Assign(tag.offset, target, self.items(self.expression))
        pipe = None
        while self.skip("|"):
            pipe = self.filter(pipe)
        return nodes.AssignBlock(tag.offset, target, pipe, self.block(tag, "endset"))

    def name_or_field(self) -> nodes.Expr:
        is_name = self.word.type == "name"
        node = self.primary()
        if is_name and isinstance(node, nodes.Name) and self.skip("."):
            return nodes.NSRef(node.offset, node.name, self.expect_type("name").text)
        return node

    def with_(self, tag: Lexeme) -> nodes.With:
        bindings = self.separated("", self.binding)
        targets, values = [target for target, _ in bindings], [value for _, value in bindings]
        return nodes.With(tag.offset, targets, values, self.block(tag, "endwith"))

    def binding(self) -> tuple[nodes.Expr, nodes.Expr]:
        target = self.items(self.primary)
        self.expect("=")
        return target, self.expression()

    def filter_(self, tag: Lexeme) -> nodes.FilterBlock:
        pipe = self.filter(None)
        while self.skip("|"):
            pipe = self.filter(pipe)
        return nodes.FilterBlock(tag.offset, self.block(tag, "endfilter"), pipe)

    def print_(self, tag: Lexeme) -> nodes.Output:
        return nodes.Output(tag.offset, self.separated("", self.expression))


_STATEMENTS: dict[str, Callable[[_TemplateParser, Lexeme], nodes.Node]] = {
    "filter": _TemplateParser.filter_,
    "for": _TemplateParser.for_,
    "if": _TemplateParser.if_,
    "print": _TemplateParser.print_,
    "set": _TemplateParser.set_,
    "with": _TemplateParser.with_,
}
