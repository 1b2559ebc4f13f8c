"""Who would read a template's value as code, however it is quoted.

Words come here without their quotes. A template in one is the character TEMPLATE; OUTPUT stands for the output of a
command that has a template.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

TEMPLATE, OUTPUT = "\0", "\1"


class Refusal(NamedTuple):
    """What is wrong with a template, and what to do."""

    message: str
    hint: str


class Reader(NamedTuple):
    """A program that reads code: options in front of code, and options with another value."""

    code: str
    value: str = ""
    always: bool = False
    """Its standard input is code even if it has operands."""


_SHELL = Reader("c", "oO")
_PYTHON = Reader("c", "WXm")
READERS = {
    **dict.fromkeys(["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh"], _SHELL),
    **dict.fromkeys(["python", "python2", "python3", "pypy", "pypy3"], _PYTHON),
    "perl": Reader("eE", "IMm"),
    "ruby": Reader("e", "Ir"),
    "node": Reader("ep", "r"),
    "php": Reader("rBE", "dc"),
    "lua": Reader("e", "l"),
    "Rscript": Reader("e"),
    "su": Reader("c", "gGsw"),
    "psql": Reader("c", "dfFhLopRTUvP", always=True),
    "mysql": Reader("e", "DhuPS", always=True),
    "sqlite3": Reader("", always=True),
}
RUNS_IN_FRONT = frozenset([
    "then", "do", "else", "elif", "if", "while", "until", "!", "{", "time", "command", "builtin", "exec", "sudo", "env",
])  # fmt: skip
"""Words that may stand before the name of a command."""
DECLARES = frozenset(["export", "readonly", "local", "declare", "typeset"])
TAKES_NAMES = frozenset(["read", "unset", "getopts", "mapfile", "readarray", "let", "alias"])
COMPARES = frozenset(["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"])
SSH_VALUES = "BbcDEeFIiJLlmOopQRSWw"
AS_ARGUMENT = "pass the value on as an argument, sh -c 'ls \"$1\"' sh {{ x }}, or as a variable under `env`"
WRITTEN_OUT = "write the name of the variable out, and the template behind `=`"
AS_NUMBER = "make a number of it first, n=$(( {{ x }} ))"


def refusals(words: Sequence[str], *, fed: bool = False) -> Iterator[Refusal]:
    """Why the templates in a command, or with `fed` in what it reads, would be read as code."""
    yield from by_programs(words, fed=fed)
    yield from _by_shell(_without_prefixes(words))


def by_programs(words: Sequence[str], *, fed: bool = False) -> Iterator[Refusal]:
    """The same without what a shell itself would do."""
    for number, word in enumerate(words):
        name = word.rpartition("/")[2]
        base = re.sub(r"[0-9.]+$", "", name)
        reader = READERS.get(name) or READERS.get(base)
        if reader is not None:
            yield from _given_to(name, reader, words[number + 1 :], fed)
        elif name == "ssh":
            yield from _sent_by_ssh(words[number + 1 :], fed)


def _given_to(name: str, reader: Reader, words: Sequence[str], fed: bool) -> Iterator[Refusal]:
    """Code as the value of an option (`-c`, `-ec`, `-e'...'`), or on standard input where there is no script."""
    follows = skipped = script = False
    for word in words:
        if follows or skipped:
            if follows and _tainted(word):
                yield Refusal(f"{name} would read the template's value as code", AS_ARGUMENT)
            script = script or follows
            if follows:
                break
            skipped = False
        elif re.match(r"-[A-Za-z]", word):
            letters = re.match(r"-([A-Za-z]*)", word)
            assert letters is not None
            code = next((one for one in letters[1] if one in reader.code), None)
            if code is not None and _tainted(word):
                yield Refusal(f"{name} would read the template's value as code", AS_ARGUMENT)
            follows = code is not None and (word.endswith(code) or reader is _SHELL)
            skipped = code is None and letters[1][-1:] in reader.value and word == letters[0]
        elif not word.startswith(("-", "+")):
            if name == "sqlite3" and any(_tainted(one) for one in words[words.index(word) + 1 :]):
                yield Refusal("sqlite3 would read the template's value as SQL", "use a task of kind duckdb or python")
            script = True
            break
    if fed and (reader.always or not script):
        yield Refusal(f"{name} would read the template's value as code", AS_ARGUMENT)


def _sent_by_ssh(words: Sequence[str], fed: bool) -> Iterator[Refusal]:
    """All words behind the host are one text that the shell on the other side reads."""
    hint = "send the value by standard input, printf '%s' {{ x }} | ssh host 'cat > file'"
    skipped, host = False, False
    for word in words:
        if host and _tainted(word):
            yield Refusal("the shell behind ssh would read the template's value as code", hint)
        elif skipped:
            skipped = False
        elif re.match(r"-[A-Za-z]", word):
            skipped = len(word) == 2 and word[1] in SSH_VALUES
        else:
            host = True
    if fed and host and len(words) == 1:
        yield Refusal("the shell behind ssh would read the template's value as code", hint)


def _without_prefixes(words: Sequence[str]) -> Sequence[str]:
    start = 0
    while start < len(words) and (words[start] in RUNS_IN_FRONT or re.match(r"[A-Za-z_]\w*\+?=", words[start])):
        start += 1
    return words[start:]


def _by_shell(words: Sequence[str]) -> Iterator[Refusal]:
    """What a shell itself reads as code, or as a name with a subscript that it evaluates."""
    if not words:
        return
    name, rest = words[0], words[1:]
    given = any(TEMPLATE in word for word in rest)
    if name == "eval" and any(map(_tainted, rest)):
        yield Refusal("eval would read the template's value as code", "give the command as a list of words")
    if name == "trap" and rest and _tainted(rest[0]):
        yield Refusal("trap would read the template's value as code", "let it call a function that has the template")
    if name in TAKES_NAMES and given:
        yield Refusal(f"{name} would take the template's value for the name of a variable", WRITTEN_OUT)
    if name in DECLARES and any(_declares_template(rest)):
        yield Refusal(f"{name} would evaluate the template's value", WRITTEN_OUT + ", without -i")
    if name == "printf" and rest[:1] == ["-v"] and TEMPLATE in "".join(rest[1:2]):
        yield Refusal("printf -v would take the template's value for the name of a variable", WRITTEN_OUT)
    if given and ((name == "[[" and COMPARES.intersection(rest)) or (name in ("[", "test") and "-v" in rest)):
        yield Refusal(f"{name} would evaluate the template's value as a formula", AS_NUMBER)
    if re.match(r"[A-Za-z_]\w*\[[^\]]*\0", name):
        yield Refusal("the shell would evaluate the template's value as a subscript", AS_NUMBER)


def _declares_template(words: Sequence[str]) -> Iterator[bool]:
    counts = any(re.match(r"-[A-Za-z]*i", word) for word in words)
    for word in words:
        yield TEMPLATE in word and (counts or re.match(r"[A-Za-z_]\w*\+?=", word) is None)


def _tainted(word: str) -> bool:
    return TEMPLATE in word or OUTPUT in word
