"""Finds templates whose value would be executed as code, however it is quoted.

Words come here without their quotes. A template in one is the character TEMPLATE; OUTPUT stands for the output of a
command that has a template.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import dropwhile, takewhile
from typing import Literal, NamedTuple

from msgspec import Struct

TEMPLATE, OUTPUT = "\0", "\1"


class Rejection(NamedTuple):
    message: str
    hint: str


class Interpreter(NamedTuple):
    """A program that executes code from its arguments or input."""

    code: str
    """Letters of options whose value is code."""
    value: str = ""
    """Letters of options with another value."""
    long: tuple[str, ...] = ()
    """Long options whose value is code."""
    operands: Literal["", "first", "all"] = ""
    """Which of its operands are code, where no option gave the code."""
    file: str = ""
    """Letters of options with a file of code, in whose presence no operand is code."""
    options_anywhere: bool = False
    """Options may follow operands: `su - me -c 'ls'`."""
    last: bool = False
    """Behind the code, all words are data."""
    always: bool = False
    """Its standard input is code even if it has operands."""


_SHELL = Interpreter("c", "oO")
_PYTHON = Interpreter("c", "WXm", last=True)
_AWK = Interpreter("e", "Fvli", ("source",), "first", "fE")
_SU = Interpreter("c", "gGsw", ("command", "session-command"), options_anywhere=True)
_MYSQL = Interpreter("e", "DhuPS", ("execute",), always=True)
INTERPRETERS = {
    **dict.fromkeys(["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh"], _SHELL),
    **dict.fromkeys(["python", "python2", "python3", "pypy", "pypy3"], _PYTHON),
    **dict.fromkeys(["awk", "gawk", "mawk", "nawk"], _AWK),
    **dict.fromkeys(["su", "runuser"], _SU),
    **dict.fromkeys(["mysql", "mariadb"], _MYSQL),
    **dict.fromkeys(["at", "batch"], Interpreter("", "qft", always=True)),
    "sed": Interpreter("e", "l", ("expression",), "first", "f"),
    "perl": Interpreter("eE", "IMm"),
    "ruby": Interpreter("e", "Ir"),
    "node": Interpreter("ep", "r", ("eval", "print")),
    "bun": Interpreter("ep", "r", ("eval", "print")),
    "php": Interpreter("rBE", "dc", ("run", "process-begin", "process-end")),
    "lua": Interpreter("e", "l"),
    "julia": Interpreter("eE", "L", ("eval", "print")),
    "expect": Interpreter("c", "f"),
    "Rscript": Interpreter("e"),
    "script": Interpreter("c", "EIOBmoT", ("command",), options_anywhere=True),
    "flock": Interpreter("c", "wE", ("command",), options_anywhere=True),
    "watch": Interpreter("", "nqs", operands="all"),
    "parallel": Interpreter("", "jnNaPSIdEL", operands="all"),
    "env": Interpreter("S", "uCP", ("split-string",)),
    "psql": Interpreter("c", "dfFhLopRTUvP", ("command",), always=True),
    "sqlite3": Interpreter("", always=True),
}
INPUT_COMMANDS = ("xargs", "parallel")
"""Programs that split their input into words, and run these as commands."""
LONG_VALUES = ("--rcfile", "--init-file")
COMMAND_PREFIXES = frozenset([
    "then", "do", "else", "elif", "if", "while", "until", "!", "{", "time", "command", "builtin", "exec", "sudo", "env",
])  # fmt: skip
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=")
DECLARATION_BUILTINS = frozenset(["export", "readonly", "local", "declare", "typeset"])
NAME_BUILTINS = frozenset(["read", "unset", "getopts", "mapfile", "readarray", "let", "alias"])
WRAPPERS = COMMAND_PREFIXES.union([
    "nohup", "nice", "timeout", "setsid", "stdbuf", "xargs", "doas", "busybox", "ionice", "chrt",
])  # fmt: skip
"""Commands that run the rest of their words as a command."""
BEFORE_COMMAND = frozenset(["-exec", "-execdir", "-ok", "-okdir", "--", "busybox"])
"""Words that directly precede the name of a command."""
EXPANDED = r"(PS[0-4]|BASH_ENV|ENV|PROMPT_COMMAND)"
"""Variables whose value a shell expands, commands included."""
COMPARES = frozenset(["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"])
SSH_VALUES = "BbcDEeFIiJLlmOopQRSWw"
AS_ARGUMENT = "pass the value on as an argument, sh -c 'ls \"$1\"' sh {{ x }}, or as a variable under `env`"
WRITTEN_OUT = "write the variable name literally, and the template after `=`"
AS_NUMBER = "convert it to a number first, n=$(( {{ x }} ))"
SUBSCRIPT = Rejection("the shell would evaluate the template's value as a subscript", AS_NUMBER)
PASS_INPUT_ON = (["echo"], ["printf"], ["cat"], ["tee"])


class Command(Struct):
    """A simple command as far as it was read: its words without quotes, templates as marks."""

    words: list[str] = []
    word: str | None = None
    redirection: str | None = None
    """The operator before the word."""
    offset: int | None = None
    fed: bool = False
    """Whether a template is in its standard input."""
    expanded_twice: bool = False
    """Whether a template is in a word that bash expands twice: the one after `>&`."""
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
        """1 inside `case ... in`, whose patterns end with a parenthesis; -1 after `esac`."""
        words = [*self.words, self.word][:1]
        return (words == ["case"]) - (words == ["esac"])


def rejections(command: Command) -> Iterator[Rejection]:
    """Why the templates in a command and its standard input would be executed as code."""
    words = command.words
    starts = [0, *(number + 1 for number, word in enumerate(words) if word == "{")]  # the body of a function as well
    for start in starts:
        name, *rest = [*_without_prefixes(words[start:]), ""]
        if name in DECLARATION_BUILTINS and any(re.match(r"-[A-Za-z]*i", word) for word in rest):
            # No template is safe anywhere then: the shell evaluates whatever is assigned to the variable later.
            message = f"{name} -i makes the shell evaluate all that is assigned to the variable as code"
            yield Rejection(message, "declare it without -i, and calculate with $(( ))")
    if command.offset is None:
        return
    if command.expanded_twice:
        hint = "write > in place of >&, or 2>&1 and the like with a number"
        yield Rejection("a template after >& is expanded twice by bash and cannot be made safe", hint)
    yield from _in_words(words, fed=command.fed)
    if command.pipes_into is not None and words[:1] in PASS_INPUT_ON:
        yield from _in_words(command.pipes_into.words, fed=True)


def _in_words(words: Sequence[str], *, fed: bool) -> Iterator[Rejection]:
    yield from by_programs(words, fed=fed)
    command = _without_prefixes(words)
    yield from _by_shell(command)
    for number, word in enumerate(words):
        subscripted = r"\{?" if number <= len(words) - len(command) else r"\{"  # `{a[0]}>file` evaluates it anywhere
        if re.match(subscripted + r"[A-Za-z_]\w*\[[^\]]*[\0\1]", word):
            yield SUBSCRIPT
        if re.match(EXPANDED + r"\+?=.*[\0\1]", word, re.DOTALL):
            message = f"the shell would read the template's value as code, since it expands {word.partition('=')[0]}"
            yield Rejection(message, "use a variable of another name")


def _without_prefixes(words: Sequence[str]) -> list[str]:
    return list(dropwhile(lambda word: word in COMMAND_PREFIXES or ASSIGNMENT.match(word), words))


def by_programs(words: Sequence[str], *, fed: bool = False) -> Iterator[Rejection]:
    """Why a program, and not the shell itself, would execute a template in its words; with `fed`, in its input."""
    for number, word in enumerate(words):
        name = word.rpartition("/")[2]
        base = re.sub(r"[0-9.]+$", "", name)
        reader = INTERPRETERS.get(name) or INTERPRETERS.get(base)
        rest = words[number + 1 :]
        if reader is not None and (not reader.operands or _is_run(words[:number])):
            yield from _by_interpreter(name, reader, rest, fed)
        elif name == "ssh":
            yield from _by_ssh(rest, fed)
        if fed and name in INPUT_COMMANDS:
            yield from by_programs(_with_input(rest))
            return


def _is_run(before: Sequence[str]) -> bool:
    """Whether the word after these is executed, and not just an argument: `grep awk file`."""
    if not before or before[-1] in BEFORE_COMMAND:
        return True
    pairs = zip(before[1:], before, strict=False)
    return before[0].rpartition("/")[2] in WRAPPERS and all(
        re.match(r"-|[A-Za-z_]\w*=|[0-9]", word) or word in WRAPPERS or previous.startswith("-")
        for word, previous in pairs
    )


def _by_interpreter(name: str, reader: Interpreter, words: Sequence[str], fed: bool) -> Iterator[Rejection]:
    """Code as the value of an option (`-c`, `-ec`, `-e'...'`), as an operand, or else on standard input."""
    if name == "parallel":  # it quotes the words after `:::` itself
        words = list(takewhile(lambda word: not word.startswith(":::"), words))
    code, operands = _parse_arguments(reader, words)
    if any(map(tainted, code)):
        yield Rejection(f"{name} would read the template's value as code", AS_ARGUMENT)
    if name == "sqlite3" and any(map(tainted, operands[1:])):
        yield Rejection("sqlite3 would read the template's value as SQL", "use a task of kind duckdb or python")
    if fed and (reader.always or not (code or operands)):
        yield Rejection(f"{name} would read the template's value as code", AS_ARGUMENT)


def _parse_arguments(reader: Interpreter, words: Sequence[str]) -> tuple[list[str], list[str]]:
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
            code_option = next((letter for letter in letters[1] if letter in reader.code), None)
            last = letters[1][-1] if word == letters[0] else ""
            files = files or any(letter in reader.file for letter in letters[1])
            if code_option is not None and reader is _SHELL:
                pending = True  # its code is the first operand, whatever options follow
            elif code_option is not None:
                attached = word.partition(code_option)[2]
                code += [attached] if attached else rest[:1]
                del rest[: not attached]
                if reader.last:
                    return code, []
            if code_option is None or pending:
                del rest[: bool(last) and last in reader.value + reader.file]
        elif not (word.startswith("+") and reader is _SHELL) and not (word == "-" and reader.options_anywhere):
            operands.append(word)
            if not reader.options_anywhere:
                operands += rest
                break
    if pending:
        return [*code, *operands[:1]], operands[1:]
    if reader.operands == "all":
        return [*code, *operands], []
    if reader.operands == "first" and not code and not files:
        return operands[:1], operands[1:]
    return code, operands


def _with_input(words: Sequence[str]) -> list[str]:
    """The command that xargs and parallel build from their input: at a placeholder, or at the end."""
    mark = None
    for number, word in enumerate(words):
        if option := re.match(r"(?:-[Ii]|-J|--replace=?)(.*)", word):
            mark = option[1] or (words[number + 1] if word in ("-I", "-J") and number + 1 < len(words) else "{}")
    if mark is None and "{}" not in "".join(words):
        return [*words, TEMPLATE]
    return [word.replace(mark or "{}", TEMPLATE) for word in words]


def _by_ssh(words: Sequence[str], fed: bool) -> Iterator[Rejection]:
    """The remote shell reads all words after the host as one text."""
    hint = "send the value by standard input, printf '%s' {{ x }} | ssh host 'cat > file'"
    rejection = Rejection("the remote shell of ssh would read the template's value as code", hint)
    skipped, host = False, False
    for word in words:
        if host and tainted(word):
            yield rejection
        elif skipped:
            skipped = False
        elif re.match(r"-[A-Za-z]", word):
            skipped = len(word) == 2 and word[1] in SSH_VALUES
        else:
            host = True
    if fed and host and len(words) == 1:
        yield rejection


def _by_shell(words: Sequence[str]) -> Iterator[Rejection]:
    """The words that a shell itself executes, or uses as a name with a subscript that it evaluates."""
    if not words:
        return
    name, rest = words[0], words[1:]
    has_template = any(map(tainted, rest))
    if name in ("eval", "compgen") and has_template:
        yield Rejection(f"{name} would read the template's value as code", "give the command as a list of words")
    if name == "trap" and rest and tainted(rest[0]):
        yield Rejection("trap would read the template's value as code", "let it call a function that has the template")
    if name in NAME_BUILTINS and has_template:
        yield Rejection(f"{name} would take the template's value for the name of a variable", WRITTEN_OUT)
    if name in DECLARATION_BUILTINS and any(_declares_template(name, rest)):
        yield Rejection(f"{name} would evaluate the template's value", WRITTEN_OUT + ", without -a, -A, -i and -n")
    if (name, *rest[:1]) in (("printf", "-v"), ("wait", "-p")) and tainted("".join(rest[1:2])):
        yield Rejection(f"{name} {rest[0]} would take the template's value for the name of a variable", WRITTEN_OUT)
    if has_template and ((name == "[[" and COMPARES.intersection(rest)) or (name in ("[", "test") and "-v" in rest)):
        yield Rejection(f"{name} would evaluate the template's value as a formula", AS_NUMBER)


def _declares_template(name: str, words: Sequence[str]) -> Iterator[bool]:
    """`-i` evaluates a value as a formula, `-a` and `-A` as a list with subscripts, `-n` as a name."""
    evaluates = any(re.match(r"-[A-Za-z]*[iaAn]", word) for word in words)
    by_output = evaluates or name not in ("export", "readonly")  # these two take no subscript in a name
    for word in words:
        has_template = TEMPLATE in word or (by_output and OUTPUT in word)
        yield has_template and (evaluates or re.match(r"[A-Za-z_]\w*\+?=", word) is None)


def tainted(word: str) -> bool:
    return TEMPLATE in word or OUTPUT in word
