"""Reads the text of a command, and collects its words and templates."""

from __future__ import annotations

from itertools import accumulate
from typing import Literal, NamedTuple, NoReturn

from msgspec import Struct

from noetl.errors import TemplateSyntax
from noetl.shell_text.code import TEMPLATE, Rejection, tainted

Context = Literal["alone", "outside", "inside", "single", "number"]
"""A whole word outside quotes, a part of one, inside double quotes, inside single ones, inside `$(( ))`."""
Part = str | int
"""Text of the command, or the number of a template in it."""


class TemplateUse(NamedTuple):
    """A template of the command and its context."""

    number: int
    context: Context


Plan = list[str | TemplateUse]


class Command(Struct):
    """A simple command as far as it was read: its words without quotes, templates as marks."""

    words: list[str] = []
    word: str | None = None
    redirection: str | None = None
    """The operator in front of the word."""
    offset: int | None = None
    """Of the first template in it."""
    fed: bool = False
    """Whether a template is in what it reads from its standard input."""
    expanded_twice: bool = False
    """Whether a template is in a word that bash expands twice: the one behind `>&`."""
    pipes_into: Command | None = None

    def add(self, text: str) -> None:
        self.word = (self.word or "") + text

    def end_word(self) -> None:
        if self.word is None:
            return
        if self.redirection is None:
            self.words.append(self.word)
        elif self.redirection == "<<<" and TEMPLATE in self.word:
            self.fed = True
        elif self.redirection.endswith("&") and tainted(self.word):
            self.expanded_twice = True
        self.word = self.redirection = None

    @property
    def case_depth(self) -> int:
        """1 inside `case ... in`, whose patterns end with a parenthesis; -1 behind `esac`."""
        words = [*self.words, self.word][:1]
        return (words == ["case"]) - (words == ["esac"])


class Reader:
    """Reads a command from left to right. `out` is the same command with a Use for each template."""

    def __init__(self, parts: list[Part], offsets: list[int], source: str) -> None:
        self.offsets, self.source = offsets, source
        self.text = "".join(TEMPLATE if isinstance(part, int) else part for part in parts)
        ends = accumulate(1 if isinstance(part, int) else len(part) for part in parts)
        self.numbers = {end - 1: part for part, end in zip(parts, ends, strict=True) if isinstance(part, int)}
        """Positions of templates in the text, with the number of each."""
        self.position = 0
        self.out: Plan = []

    @property
    def next(self) -> str:
        """The next character; empty at the end."""
        return self.text[self.position : self.position + 1]

    @property
    def at_template(self) -> bool:
        return self.position in self.numbers

    def ahead(self, text: str) -> bool:
        return self.text.startswith(text, self.position)

    def take(self, count: int = 1) -> str:
        text = self.text[self.position : self.position + count]
        self.out.append(text)
        self.position += count
        return text

    def take_blanks(self) -> None:
        while self.next in (" ", "\t"):
            self.take()

    def refuse(self, what: str, hint: str, offset: int | None = None) -> NoReturn:
        if offset is None:
            offset = self.offsets[self.numbers[self.position]]
        self.reject(Rejection(f"{what} cannot be made safe", hint), offset)

    def reject(self, rejection: Rejection, offset: int) -> NoReturn:
        raise TemplateSyntax(rejection.message, self.source, offset, rejection.hint)
