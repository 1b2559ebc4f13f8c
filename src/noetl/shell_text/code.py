"""Who would read a template's value as code, however it is quoted.

Words come here without their quotes. A template in one is the character TEMPLATE; OUTPUT stands for the output of a
command that has a template.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

TEMPLATE, OUTPUT = "\0", "\1"


class Refusal(NamedTuple):
    """What is wrong with a template, and what to do."""

    message: str
    hint: str


class Reader(NamedTuple):
    """A program that reads code."""

    code: str
    """Letters of options in front of code."""
    value: str = ""
    """Letters of options with another value."""
    long: tuple[str, ...] = ()
    """Long options in front of code."""
    operands: Literal["", "first", "all"] = ""
    """Which of its operands are code, where no option gave the code."""
    file: str = ""
    """Letters of options with a file of code, in whose presence no operand is code."""
    permutes: bool = False
    """Options may stand behind operands: `su - me -c 'ls'`."""
    last: bool = False
    """Behind the code, all words are data."""
    always: bool = False
    """Its standard input is code even if it has operands."""


_SHELL = Reader("c", "oO")
_PYTHON = Reader("c", "WXm", last=True)
_AWK = Reader("e", "Fvli", ("source",), "first", "fE")
_SU = Reader("c", "gGsw", ("command", "session-command"), permutes=True)
_MYSQL = Reader("e", "DhuPS", ("execute",), always=True)
READERS = {
    **dict.fromkeys(["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh"], _SHELL),
    **dict.fromkeys(["python", "python2", "python3", "pypy", "pypy3"], _PYTHON),
    **dict.fromkeys(["awk", "gawk", "mawk", "nawk"], _AWK),
    **dict.fromkeys(["su", "runuser"], _SU),
    **dict.fromkeys(["mysql", "mariadb"], _MYSQL),
    **dict.fromkeys(["at", "batch"], Reader("", "qft", always=True)),
    "sed": Reader("e", "l", ("expression",), "first", "f"),
    "perl": Reader("eE", "IMm"),
    "ruby": Reader("e", "Ir"),
    "node": Reader("ep", "r", ("eval", "print")),
    "bun": Reader("ep", "r", ("eval", "print")),
    "php": Reader("rBE", "dc", ("run", "process-begin", "process-end")),
    "lua": Reader("e", "l"),
    "julia": Reader("eE", "L", ("eval", "print")),
    "expect": Reader("c", "f"),
    "Rscript": Reader("e"),
    "script": Reader("c", "EIOBmoT", ("command",), permutes=True),
    "flock": Reader("c", "wE", ("command",), permutes=True),
    "watch": Reader("", "nqs", operands="all"),
    "parallel": Reader("", "jnNaPSIdEL", operands="all"),
    "env": Reader("S", "uCP", ("split-string",)),
    "psql": Reader("c", "dfFhLopRTUvP", ("command",), always=True),
    "sqlite3": Reader("", always=True),
}
FEEDS = ("xargs", "parallel")
"""Programs that make words of what they read, and commands of those."""
LONG_VALUES = ("--rcfile", "--init-file")
"""Long options of shells whose value is the next word."""
RUNS_IN_FRONT = frozenset([
    "then", "do", "else", "elif", "if", "while", "until", "!", "{", "time", "command", "builtin", "exec", "sudo", "env",
])  # fmt: skip
"""Words that may stand before the name of a command."""
DECLARES = frozenset(["export", "readonly", "local", "declare", "typeset"])
TAKES_NAMES = frozenset(["read", "unset", "getopts", "mapfile", "readarray", "let", "alias"])
RUNS_REST = RUNS_IN_FRONT | {
    "nohup",
    "nice",
    "timeout",
    "setsid",
    "stdbuf",
    "xargs",
    "doas",
    "busybox",
    "ionice",
    "chrt",
}
"""Commands that run the rest of their words as a command."""
RUNS_NEXT = frozenset(["-exec", "-execdir", "-ok", "-okdir", "--", "busybox"])
"""Words that stand directly before the name of a command."""
EXPANDED = r"(PS[0-4]|BASH_ENV|ENV|PROMPT_COMMAND)"
"""Variables whose value a shell expands, commands included."""
COMPARES = frozenset(["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"])
SSH_VALUES = "BbcDEeFIiJLlmOopQRSWw"
AS_ARGUMENT = "pass the value on as an argument, sh -c 'ls \"$1\"' sh {{ x }}, or as a variable under `env`"
WRITTEN_OUT = "write the name of the variable out, and the template behind `=`"
AS_NUMBER = "make a number of it first, n=$(( {{ x }} ))"


def refusals(words: Sequence[str], *, fed: bool = False) -> Iterator[Refusal]:
    """Why the templates in a command, or with `fed` in what it reads, would be read as code."""
    yield from by_programs(words, fed=fed)
    command = _without_prefixes(words)
    yield from _by_shell(command)
    yield from _by_assignment(words, len(words) - len(command) + 1)


def by_programs(words: Sequence[str], *, fed: bool = False) -> Iterator[Refusal]:
    """The same without what a shell itself would do."""
    for number, word in enumerate(words):
        name = word.rpartition("/")[2]
        base = re.sub(r"[0-9.]+$", "", name)
        reader = READERS.get(name) or READERS.get(base)
        rest = words[number + 1 :]
        if reader is not None and (not reader.operands or _is_run(words[:number])):
            yield from _given_to(name, reader, rest, fed)
        elif name == "ssh":
            yield from _sent_by_ssh(rest, fed)
        if fed and name in FEEDS:
            yield from by_programs(_with_read(rest))
            return


def _is_run(before: Sequence[str]) -> bool:
    """Whether the word behind these is run, and not just a word: `grep awk file`."""
    if not before or before[-1] in RUNS_NEXT:
        return True
    pairs = zip(before[1:], before, strict=False)
    return before[0].rpartition("/")[2] in RUNS_REST and all(
        re.match(r"-|[A-Za-z_]\w*=|[0-9]", word) or word in RUNS_REST or previous.startswith("-")
        for word, previous in pairs
    )


def _given_to(name: str, reader: Reader, words: Sequence[str], fed: bool) -> Iterator[Refusal]:
    """Code as the value of an option (`-c`, `-ec`, `-e'...'`), as an operand, or on standard input without either."""
    given = _read_by(reader, _without_arguments(name, words))
    if any(map(tainted, given.code)):
        yield Refusal(f"{name} would read the template's value as code", AS_ARGUMENT)
    if name == "sqlite3" and any(map(tainted, given.operands[1:])):
        yield Refusal("sqlite3 would read the template's value as SQL", "use a task of kind duckdb or python")
    if fed and (reader.always or not (given.code or given.operands)):
        yield Refusal(f"{name} would read the template's value as code", AS_ARGUMENT)


def _without_arguments(name: str, words: Sequence[str]) -> Sequence[str]:
    """What parallel takes behind `:::` are arguments, which it quotes."""
    end = next((at for at, word in enumerate(words) if word.startswith(":::")), None) if name == "parallel" else None
    return words[:end]


class _Given(NamedTuple):
    """What a program is given: code, and operands that are not."""

    code: list[str]
    operands: list[str]


def _read_by(reader: Reader, words: Sequence[str]) -> _Given:
    """The words of a program as it reads its options."""
    code: list[str] = []
    operands: list[str] = []
    pending, files = False, False
    rest = list(words)
    while rest:
        word = rest.pop(0)
        letters = re.match(r"-([A-Za-z]+)", word)
        long, equals, value = word[2:].partition("=")
        if word == "--":
            operands += rest
            break
        if word.startswith("--"):
            if long in reader.long:
                code += [value] if equals else rest[:1]
                del rest[: not equals]
            elif word in LONG_VALUES:
                del rest[:1]
        elif letters is not None:
            found = next((one for one in letters[1] if one in reader.code), None)
            last = letters[1][-1] if word == letters[0] else ""
            files = files or any(one in reader.file for one in letters[1])
            if found is not None and reader is _SHELL:
                pending = True  # its code is the first operand, whatever options follow
            elif found is not None:
                attached = word.partition(found)[2]
                code += [attached] if attached else rest[:1]
                del rest[: not attached]
                if reader.last:
                    return _Given(code, [])
            if found is None or pending:
                del rest[: bool(last) and last in reader.value + reader.file]
        elif not (word.startswith("+") and reader is _SHELL) and not (word == "-" and reader.permutes):
            operands.append(word)
            if not reader.permutes:
                operands += rest
                break
    if pending:
        return _Given([*code, *operands[:1]], operands[1:])
    if reader.operands == "all":
        return _Given([*code, *operands], [])
    if reader.operands == "first" and not code and not files:
        return _Given(operands[:1], operands[1:])
    return _Given(code, operands)


def _with_read(words: Sequence[str]) -> list[str]:
    """The command that xargs and parallel make of what they read: in the place of a mark, or at the end."""
    mark = None
    for number, word in enumerate(words):
        found = re.match(r"(?:-[Ii]|-J|--replace=?)(.*)", word)
        if found is not None:
            mark = found[1] or (words[number + 1] if word in ("-I", "-J") and number + 1 < len(words) else "{}")
    if mark is None and "{}" not in "".join(words):
        return [*words, TEMPLATE]
    return [word.replace(mark or "{}", TEMPLATE) for word in words]


def _sent_by_ssh(words: Sequence[str], fed: bool) -> Iterator[Refusal]:
    """All words behind the host are one text that the shell on the other side reads."""
    hint = "send the value by standard input, printf '%s' {{ x }} | ssh host 'cat > file'"
    skipped, host = False, False
    for word in words:
        if host and tainted(word):
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
    while start < len(words) and (
        words[start] in RUNS_IN_FRONT or re.match(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=", words[start])
    ):
        start += 1
    return words[start:]


def _by_shell(words: Sequence[str]) -> Iterator[Refusal]:
    """What a shell itself reads as code, or as a name with a subscript that it evaluates."""
    if not words:
        return
    name, rest = words[0], words[1:]
    given = any(map(tainted, rest))
    if name in ("eval", "compgen") and given:
        yield Refusal(f"{name} would read the template's value as code", "give the command as a list of words")
    if name == "trap" and rest and tainted(rest[0]):
        yield Refusal("trap would read the template's value as code", "let it call a function that has the template")
    if name in TAKES_NAMES and given:
        yield Refusal(f"{name} would take the template's value for the name of a variable", WRITTEN_OUT)
    if name in DECLARES and any(_declares_template(name, rest)):
        yield Refusal(f"{name} would evaluate the template's value", WRITTEN_OUT + ", without -a, -A, -i and -n")
    if (name, *rest[:1]) in (("printf", "-v"), ("wait", "-p")) and tainted("".join(rest[1:2])):
        yield Refusal(f"{name} {rest[0]} would take the template's value for the name of a variable", WRITTEN_OUT)
    if given and ((name == "[[" and COMPARES.intersection(rest)) or (name in ("[", "test") and "-v" in rest)):
        yield Refusal(f"{name} would evaluate the template's value as a formula", AS_NUMBER)


def _by_assignment(words: Sequence[str], count: int) -> Iterator[Refusal]:
    """Assignments, the first so many words, that evaluate a subscript (`{a[0]}>file` does so anywhere), and variables
    whose value a shell expands once more."""
    for number, word in enumerate(words):
        if re.match(r"%s[A-Za-z_]\w*\[[^\]]*[\0\1]" % (r"\{?" if number < count else r"\{"), word):
            yield Refusal("the shell would evaluate the template's value as a subscript", AS_NUMBER)
        if re.match(EXPANDED + r"\+?=.*[\0\1]", word, re.DOTALL):
            message = f"the shell would read the template's value as code, since it expands {word.partition('=')[0]}"
            yield Refusal(message, "use a variable of another name")


def subscript_refusal(word: str) -> Refusal | None:
    """Why a word inside the parentheses of `a=(...)` would be evaluated; None if it would not."""
    if re.match(r"\[[^\]]*[\0\1]", word):
        return Refusal("the shell would evaluate the template's value as a subscript", AS_NUMBER)
    return None


def _declares_template(name: str, words: Sequence[str]) -> Iterator[bool]:
    """`-i` makes a formula of a value, `-a` and `-A` a list with subscripts, `-n` a name."""
    evaluates = any(re.match(r"-[A-Za-z]*[iaAn]", word) for word in words)
    by_output = evaluates or name not in ("export", "readonly")  # these two take no subscript in a name
    for word in words:
        found = TEMPLATE in word or (by_output and OUTPUT in word)
        yield found and (evaluates or re.match(r"[A-Za-z_]\w*\+?=", word) is None)


def tainted(word: str) -> bool:
    """Whether a template has a part in a word."""
    return TEMPLATE in word or OUTPUT in word
