"""Splits source text into tokens, each with its place."""

from __future__ import annotations

import re
from bisect import bisect_right
from math import isfinite
from typing import NamedTuple

from noetl.errors import TemplateSyntax

MAX_NESTING = 32  # brackets in an expression, and blocks: the parser takes a few Python frames for each
NUMBER_CHARACTERS = 1233  # digits of 4096 bits
_BRACKETS = {"(": ")", "[": "]", "{": "}"}


class Lexeme(NamedTuple):
    """A token. `type`: data, name, operator, string, integer, float, or begin and end of a variable or a block."""

    offset: int
    end: int
    type: str
    text: str


_OPENING = re.compile(r"\{(?:%[-+]?\s*(?P<raw>raw)\s*(?:-%\}\s*|%\})|(?P<tag>[{%#])[-+]?)")
_BEGIN = re.compile(r"\{[{%]")
_COMMENT_END = re.compile(r"\+#\}|-#\}\s*|#\}")
_RAW_END = re.compile(r"\{%(?P<sign>[-+]?)\s*endraw\s*(?:\+%\}|-%\}\s*|%\})")
_TOKEN = r"""\s*(?:
      (?P<end>{end})
    | (?P<name>[^\W\d]\w*)
    | (?P<operator>\|\||\{{\{{|//|\*\*|==|!=|>=|<=|[-+/*%~\[\](){{}}<>=.:|,;])
    | (?P<string>'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")
    | (?P<float>(?<!\.)(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?[eE][+\-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+))
    | (?P<integer>0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0[xX](?:_?[\da-fA-F])+|[1-9](?:_?\d)*|0(?:_?0)*)
    | (?P<mistake>\S))"""
_TAGS = {
    "{": ("variable", "}}", re.compile(_TOKEN.format(end=r"-\}\}\s*|\}\}"), re.VERBOSE | re.DOTALL)),
    "%": ("block", "%}", re.compile(_TOKEN.format(end=r"\+%\}|-%\}\s*|%\}"), re.VERBOSE | re.DOTALL)),
}
_LITERALS = frozenset(["string", "integer", "float"])
_MISTAKES = {"||": "'||' is not an operator", "{{": "'{{' inside an expression"}
_HINTS = {
    "||": "write 'or' instead of '||'",
    "{{": "inside '{{ }}' write names without braces",
    "&": "write 'and' instead of '&&'",
    "!": "write 'not' instead of '!'",
    "?": "write 'a if condition else b'",
    "$": "write the name without '$'",
    **dict.fromkeys("'\"", "the string that starts here is never closed"),
    "`": "use ' or \" for strings",
}


def has_syntax(source: str) -> bool:
    return "{{" in source or "{%" in source or "{#" in source


def template_offsets(source: str) -> list[int]:
    """Where each `{{` or `{%` begins."""
    return [match.start() for match in _BEGIN.finditer(source)] if "{" in source else []


def lex(source: str) -> list[Lexeme]:
    """The tokens of a template, without comments and white space; TemplateSyntax where there is none."""
    if "\r" not in source:
        return _tokens(source)
    ends = [match.start() for match in re.finditer("\r\n", source)]
    shifted = [end - number for number, end in enumerate(ends)]  # the place of each when it is one character

    def place(offset: int) -> int:
        return offset + bisect_right(shifted, offset - 1)

    try:
        words = _tokens(source.replace("\r\n", "\n").replace("\r", "\n"))
    except TemplateSyntax as error:
        raise TemplateSyntax(error.message, source, place(error.offset), error.hint) from None
    return [Lexeme(place(word.offset), place(word.end), word.type, word.text) for word in words]


def _tokens(source: str) -> list[Lexeme]:
    words: list[Lexeme] = []
    position = 0

    def add_data(end: int, stripped: bool) -> None:
        text = source[position:end].rstrip() if stripped else source[position:end]
        if text:
            words.append(Lexeme(position, position + len(text), "data", text))

    while (opening := _OPENING.search(source, position)) is not None:
        begin = opening.start()
        add_data(begin, stripped=source.startswith("-", begin + 2))
        position = opening.end()
        if opening["tag"] in _TAGS:
            position = _tag_tokens(source, opening, words)
            continue
        if position == len(source):
            break  # nothing to leave out
        end = (_RAW_END if opening["raw"] else _COMMENT_END).search(source, position)
        if end is None:
            closing = "{% endraw %}" if opening["raw"] else "#}"
            raise TemplateSyntax(f"'{opening[0].strip()}' is never closed", source, begin, f"add '{closing}'")
        if opening["raw"]:
            add_data(end.start(), stripped=end["sign"] == "-")
        position = end.end()
    add_data(len(source), stripped=False)
    return words


def _tag_tokens(source: str, opening: re.Match[str], words: list[Lexeme]) -> int:
    """Add the tokens of one `{{ }}` or `{% %}`; returns where it ends."""
    tag, closing, pattern = _TAGS[opening["tag"]]
    words.append(Lexeme(opening.start(), opening.end(), f"{tag}_begin", opening[0]))
    position = opening.end()
    brackets: list[Lexeme] = []
    is_ascii = source.isascii()
    while (match := pattern.match(source, position)) is not None:
        kind, text = str(match.lastgroup), match[match.lastgroup or 0]
        position = match.end()
        start = position - len(text)
        if (kind == "name" and is_ascii) or kind in _LITERALS:
            words.append(Lexeme(start, position, kind, text))
            continue
        if kind == "end":
            if not brackets:
                words.append(Lexeme(start, position, f"{tag}_end", text))
                return position
            kind, text, position = "operator", text[0], start + 1  # `}}` of nested maps
        if kind == "name" and not source[start : position + 1].isascii():
            position = _name_end(source, position)
            text = source[start:position]
            if not text.isidentifier():
                raise TemplateSyntax(f"'{text[:40]}' is not a name", source, start)
        if kind == "mistake" or text in _MISTAKES:
            message = _MISTAKES.get(text, f"unexpected character {text!r}")
            raise TemplateSyntax(message, source, start, _HINTS.get(text))
        word = Lexeme(start, position, kind, text)
        words.append(word)
        if text in _BRACKETS:
            brackets.append(word)
            if len(brackets) > MAX_NESTING:
                raise TemplateSyntax("the expression is nested too deeply", source, start)
        elif kind == "operator" and text in ")]}":
            if not brackets:
                hint = f"close '{opening[0][:2]}' with '{closing}'" if text == "}" else None
                raise TemplateSyntax(f"unexpected '{text}'", source, start, hint)
            if text != _BRACKETS[brackets[-1].text]:
                break
            brackets.pop()
    if brackets:
        text, start = brackets[-1].text, brackets[-1].offset
        raise TemplateSyntax(f"'{text}' is never closed", source, start, f"add '{_BRACKETS[text]}'")
    raise TemplateSyntax(f"'{opening[0][:2]}' is never closed", source, opening.start(), f"add '{closing}'")


def _name_end(source: str, position: int) -> int:
    """Where a name ends that has characters which are not in `\\w`, such as vowel signs."""
    while position < len(source) and (source[position].isalnum() or f"_{source[position]}".isidentifier()):
        position += 1
    return position


# --- literals


def number(word: Lexeme, source: str) -> int | float:
    digits = word.text.replace("_", "")
    if len(digits) <= NUMBER_CHARACTERS:
        value = float(digits) if word.type == "float" else int(digits, 0)
        if isinstance(value, int) or isfinite(value):
            return value
    raise TemplateSyntax("the number is too large", source, word.offset)


_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)", re.DOTALL)
_SIMPLE_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "\n": "",
}  # fmt: skip


def string(word: Lexeme, source: str) -> str:
    """The value of a string literal. Unknown escapes stay as they are, so '\\d+' needs no doubling."""
    text = word.text[1:-1]
    if "\\" not in text:
        return text

    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[code]
        if len(code) > 1 or code in "01234567":
            number = int(code, 8) if code[0] in "01234567" else int(code[1:], 16)
            if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
                raise TemplateSyntax(f"'\\{code}' is not a character", source, word.offset)
            return chr(number)
        if code in "xuU":
            raise TemplateSyntax(f"'\\{code}' needs more hexadecimal digits", source, word.offset)
        return match[0]

    return _ESCAPE.sub(character, text)
