"""A command read as a shell reads it, to know in what place each template stands."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from noetl.errors import TemplateSyntax
from noetl.shell_text.code import AS_NUMBER, OUTPUT, TEMPLATE, rejections, subscript_rejection, tainted

Context = Literal["alone", "outside", "inside", "single", "number"]
"""A whole word outside quotes, a part of one, inside double quotes, inside single ones, inside `$(( ))`."""
Part = str | int
"""Text of the command, or the number of a template in it."""

SEPARATORS = " \t\n;&|()<>"
PASSES_ON = (["echo"], ["printf"], ["cat"], ["tee"])
"""Commands whose output is what they were given."""


class Use(NamedTuple):
    """A template of the command and its context."""

    number: int
    place: Context


Plan = list[str | Use]

CLOSES = {"$((": "))", "$(": ")", "${": "}", "`": "`", "'": "'", '"': '"', "(": ")", "[": "]"}


class Document:
    """A here-document that was announced and has not been read yet."""

    __slots__ = ("command", "delimiter", "quoted", "tabs")

    def __init__(self, delimiter: str, quoted: bool, tabs: bool, command: Command) -> None:
        self.delimiter, self.quoted, self.tabs, self.command = delimiter, quoted, tabs, command


class Command:
    """A simple command as far as it was read: its words without quotes, templates as marks."""

    __slots__ = ("doubled", "fed", "into", "offset", "redirected", "word", "words")

    def __init__(self) -> None:
        self.words: list[str] = []
        self.word: str | None = None
        self.redirected: str | None = None
        """The operator in front of the word."""
        self.offset: int | None = None
        """Of the first template in it."""
        self.fed = False
        """Whether a template is in what it reads from its standard input."""
        self.doubled = False
        """Whether a template is in a word that bash expands twice: the one behind `>&`."""
        self.into: Command | None = None
        """The command that reads its output through a pipe."""

    def add(self, text: str) -> None:
        self.word = (self.word or "") + text

    def end_word(self) -> None:
        if self.word is None:
            return
        if self.redirected is None:
            self.words.append(self.word)
        elif self.redirected == "<<<" and TEMPLATE in self.word:
            self.fed = True
        elif self.redirected.endswith("&") and tainted(self.word):
            self.doubled = True
        self.word = self.redirected = None


class Scanner:
    """Reads a command once. `out` is the same command with a Use for each template."""

    def __init__(self, parts: list[Part], offsets: list[int], source: str) -> None:
        self.items: list[Part] = []
        for part in parts:
            self.items.extend([part] if isinstance(part, int) else part)
        self.offsets, self.source = offsets, source
        self.position = 0
        self.out: Plan = []
        self.documents: list[Document] = []
        self.in_escaped_backticks = 0
        """Inside backticks with escapes, which are undone before the shell reads them."""
        self.formula = 0
        """Inside `$(( ))`, where the shell evaluates whatever comes out."""

    def plan(self) -> Plan:
        try:
            self.commands("")
        except RecursionError:
            raise TemplateSyntax("the command is nested too deeply", self.source, 0) from None
        whole: Plan = []
        for part in self.out:
            if isinstance(part, str) and whole and isinstance(whole[-1], str):
                whole[-1] += part
            else:
                whole.append(part)
        return whole

    # What lies ahead.

    def ahead(self, text: str) -> bool:
        return self.items[self.position : self.position + len(text)] == list(text)

    @property
    def next(self) -> Part:
        """The next character, the number of a template, or an empty string at the end."""
        return self.items[self.position] if self.position < len(self.items) else ""

    def take(self, count: int = 1) -> str:
        taken = "".join(str(item) for item in self.items[self.position : self.position + count])
        self.out.append(taken)
        self.position += count
        return taken

    def use(self, place: Context, command: Command) -> None:
        """Use the next template."""
        number = self.next
        assert isinstance(number, int)
        if self.in_escaped_backticks:
            self.refuse("a template in backticks with escapes", "write $( ) in place of the backticks")
        if self.formula and place != "number":
            self.refuse("a template in a command inside $(( ))", AS_NUMBER)
        if command.offset is None:
            command.offset = self.offsets[number]
        command.add(TEMPLATE)
        self.out.append(Use(number, place))
        self.position += 1

    def refuse(self, what: str, hint: str, offset: int | None = None) -> None:
        if offset is None:
            number = self.next
            offset = self.offsets[number] if isinstance(number, int) else 0
        raise TemplateSyntax(f"{what} can't be made safe", self.source, offset, hint)

    # Commands.

    def commands(self, end: str) -> int | None:
        """Read a list of commands up to its end; return the offset of its first template."""
        command, first, cases, pipeline = Command(), None, 0, list[Command]()

        def finish(piped: bool = False) -> None:
            nonlocal command, first, cases
            command.end_word()
            pipeline.append(command)
            first = command.offset if first is None else first
            cases += (command.words[:1] == ["case"]) - (command.words[:1] == ["esac"])
            previous, command = command, Command()
            if piped:
                previous.into = command
            else:
                for one in pipeline:
                    self.check(one)
                pipeline.clear()

        while (item := self.next) != "":
            if item == end and (end == "`" or cases + opens_case(command) == 0):
                break
            if isinstance(item, int):
                self.use(self.outside(command), command)
            elif item == "\n":
                finish()
                self.take()
                self.read_documents()
            elif item in ";&|)":
                if not self.redirects(item):
                    finish(piped=item == "|" and not self.ahead("||"))
                self.take(2 if self.ahead("||") else 1)
            elif item in " \t":
                command.end_word()
                self.take()
            elif item == "#" and command.word is None:
                self.comment()
            elif item == "(":
                self.parenthesis(command)
            elif item in "<>":
                self.redirection(command)
            else:
                self.word_part(item, command)
        finish()
        return first

    def substitution(self, end: str, command: Command) -> None:
        """Read commands inside a word."""
        offset = self.commands(end)
        if offset is not None:
            command.add(OUTPUT)
            command.offset = offset if command.offset is None else command.offset
        if self.next == end:
            self.take()

    def redirects(self, item: str) -> bool:
        """Whether the character belongs to a redirection, as in `&>file`."""
        return item == "&" and self.ahead("&>")

    def outside(self, command: Command) -> Context:
        """Whether the template is a whole word."""
        behind = self.items[self.position + 1 : self.position + 2]
        ends = not behind or (isinstance(behind[0], str) and behind[0] in SEPARATORS + "`")
        return "alone" if ends and command.word is None and command.redirected is None else "outside"

    def word_part(self, item: str, command: Command) -> None:
        if item == "\\":
            self.escape(command)
        elif item == "'":
            self.single(command)
        elif item == '"':
            self.double(command)
        elif item == "`":
            self.backticks(command)
        elif item == "$":
            self.dollar(command, quoted=False)
        else:
            command.add(self.take())

    def escape(self, command: Command) -> None:
        self.take()
        if isinstance(self.next, int):
            self.refuse("a template behind a backslash", "leave the backslash out: a value needs none")
        if self.next == "\n":
            self.take()
        else:
            command.add(self.take())

    def comment(self) -> None:
        """Skip a comment with its templates, whose source may have several lines."""
        while self.next not in ("", "\n"):
            if isinstance(self.next, int):
                self.position += 1
            else:
                self.take()

    def parenthesis(self, command: Command) -> None:
        if command.word is None and self.ahead("(("):
            self.take(2)
            self.formula_without("))", "(( ))", "write $(( )) for a number, or `( (` for a subshell")
            return
        self.take()
        if re.fullmatch(r"[A-Za-z_]\w*\+?=", command.word or ""):
            self.compound(command)
        else:
            self.substitution(")", command)

    def compound(self, command: Command) -> None:
        """Read the words of `a=(...)`. The shell evaluates the subscript of `[...]=word`, quoted or not."""
        inner = Command()

        def end_word() -> None:
            rejection = subscript_rejection(inner.word or "")
            if rejection is not None and inner.offset is not None:
                raise TemplateSyntax(rejection.message, self.source, inner.offset, rejection.hint)
            inner.end_word()
            inner.offset = None

        while (item := self.next) not in ("", ")"):
            if isinstance(item, int):
                place = self.outside(inner)
                self.use(place, inner)
                command.offset = inner.offset if command.offset is None else command.offset
            elif item in " \t\n":
                end_word()
                self.take()
            elif item == "#" and inner.word is None:
                self.comment()
            else:
                self.word_part(item, inner)
        end_word()
        self.take()
        command.add(OUTPUT if any(map(tainted, inner.words)) else "")

    def redirection(self, command: Command) -> None:
        command.end_word()
        if self.ahead("<<<"):
            self.take(3)
            command.redirected = "<<<"
        elif self.ahead("<<"):
            self.announce(command)
        elif self.ahead("<(") or self.ahead(">("):
            self.take()
            self.parenthesis(command)
        else:
            command.redirected = self.take()
            while self.next in ("<", ">", "&", "|"):
                command.redirected += self.take()
        while command.redirected is not None and self.next in (" ", "\t"):
            self.take()

    # Here-documents.

    def announce(self, command: Command) -> None:
        self.take(2)
        tabs = self.next == "-"
        if tabs:
            self.take()
        while self.next in (" ", "\t"):
            self.take()
        delimiter = Command()
        quoted = False
        while (item := self.next) != "":
            if isinstance(item, int):
                self.refuse("a template as the end mark of a here-document", "write a fixed word behind <<")
            if str(item) in SEPARATORS:
                break
            quoted = quoted or str(item) in "'\"\\"
            self.word_part(str(item), delimiter)
        self.documents.append(Document(delimiter.word or "", quoted, tabs, command))

    def read_documents(self) -> None:
        documents, self.documents = self.documents, []
        for document in documents:
            while self.next != "" and not self.at_delimiter(document):
                self.read_line(document)
            self.check(document.command)

    def at_delimiter(self, document: Document) -> bool:
        """Read the line that ends the document, if it is next."""
        try:
            end = self.items.index("\n", self.position)
        except ValueError:
            end = len(self.items)
        line = self.items[self.position : end]
        if any(isinstance(item, int) for item in line):
            return False
        text = "".join(str(item) for item in line)
        if (text.lstrip("\t") if document.tabs else text) != document.delimiter:
            return False
        self.take(len(line) + 1)
        return True

    def read_line(self, document: Document) -> None:
        command = Command()
        while (item := self.next) not in ("", "\n"):
            if isinstance(item, int):
                if document.quoted:
                    hint = f"write <<{document.delimiter} without quotes, and a backslash before each $ and ` to keep"
                    self.refuse("a template in a here-document whose end mark is quoted", hint)
                self.use("inside", command)
            elif document.quoted:
                self.take()
            else:
                self.quoted_part(item, command)
        if command.offset is not None:
            document.command.fed = True
            document.command.offset = document.command.offset or command.offset
        if self.next == "\n":
            self.take()

    # Quotes and expansions.

    def single(self, command: Command) -> None:
        command.add("")
        self.take()
        while (item := self.next) not in ("", "'"):
            if isinstance(item, int):
                self.use("single", command)
            else:
                command.add(self.take())
        self.take()

    def double(self, command: Command) -> None:
        command.add("")
        self.take()
        while (item := self.next) not in ("", '"'):
            if isinstance(item, int):
                self.use("inside", command)
            else:
                self.quoted_part(item, command)
        self.take()

    def quoted_part(self, item: str, command: Command) -> None:
        """Read a part of double quotes or of a here-document."""
        if item == "\\":
            self.escape(command)
        elif item == "`":
            self.backticks(command)
        elif item == "$":
            self.dollar(command, quoted=True)
        else:
            command.add(self.take())

    def backticks(self, command: Command) -> None:
        self.take()
        in_escaped_backticks = self.in_escaped_backticks
        self.in_escaped_backticks += self.has_escapes()
        self.substitution("`", command)
        self.in_escaped_backticks = in_escaped_backticks

    def has_escapes(self) -> bool:
        """Whether the backticks that were just opened contain a backslash."""
        for position in range(self.position, len(self.items)):
            if self.items[position] in ("\\", "`"):
                return self.items[position] == "\\"
        return False

    def dollar(self, command: Command, quoted: bool) -> None:
        behind = self.items[self.position + 1 : self.position + 2]
        if behind and isinstance(behind[0], int):
            self.out.append("\\")  # a sign of money: else it would meet the reference behind it
            command.add(self.take())
        elif self.ahead("$(("):
            self.take(3)
            self.arithmetic(command)
        elif self.ahead("$("):
            self.take(2)
            self.substitution(")", command)
        elif self.ahead("${"):
            self.parameter(command, quoted)
        elif self.ahead("$["):
            self.take(2)
            self.formula_without("]", "$[ ]", "write $(( )) in its place")
        elif self.ahead("$'") and not quoted:
            self.take(2)
            self.sealed("'", "$'...'", "close it before the template and open it again behind")
        else:
            command.add(self.take())

    def arithmetic(self, command: Command) -> None:
        depth = 0
        self.formula += 1
        while (item := self.next) != "":
            if depth == 0 and self.ahead("))"):
                self.take(2)
                break
            if isinstance(item, int):
                self.use("number", command)
            elif item in "$`":
                self.quoted_part(item, command)
            else:
                depth += (item == "(") - (item == ")")
                self.take()
        self.formula -= 1

    def parameter(self, command: Command, quoted: bool) -> None:
        """`${name:-word}`, where the word may have templates; no other form of `${ }` may."""
        head = re.match(r"\$\{([A-Za-z_]\w*|[0-9]+|[@*#?$!-]):?[-=+?]", self.glance())
        if head is None:
            self.take(2)
            self.formula_without("}", "${ }", "give the value a name under `env` and use that")
            return
        self.take(head.end())
        while (item := self.next) not in ("", "}"):
            if isinstance(item, int):
                self.use("inside" if quoted else "outside", command)
            elif quoted:
                self.quoted_part(item, command)
            else:
                self.word_part(item, command)
        self.take()

    def glance(self) -> str:
        """The text up to the next template, of the length of a name."""
        found = []
        for item in self.items[self.position : self.position + 256]:
            if isinstance(item, int):
                break
            found.append(item)
        return "".join(found)

    def sealed(self, end: str, what: str, hint: str) -> None:
        """Read a part in which templates are not allowed."""
        while self.next != "" and not self.ahead(end):
            if self.next == "\\":
                self.take()
            if isinstance(self.next, int):
                self.refuse(f"a template inside {what}", hint)
            self.take()
        self.take(len(end))

    def formula_without(self, end: str, what: str, hint: str) -> None:
        """Read a part with expansions, in which templates are not allowed."""
        ends = [end]
        while ends and (item := self.next) != "":
            if isinstance(item, int):
                self.refuse(f"a template inside {what}", hint)
            top = ends[-1]
            if self.ahead(top):
                self.take(len(top))
                ends.pop()
            elif top == "'":
                self.take()
            elif item == "\\":
                self.take()
                if not isinstance(self.next, int):
                    self.take()
            else:
                opened = self.opened(top)
                self.take(len(opened) or 1)
                if opened:
                    ends.append(CLOSES[opened])

    def opened(self, inside: str) -> str:
        """The opening bracket or quote that is next, inside a part with its own end; empty if none is."""
        marks = ["$((", "$(", "${", "`"] + (["'", '"'] if inside != '"' else [])
        marks += {"))": ["("], ")": ["("], "]": ["["]}.get(inside, [])
        return next((mark for mark in marks if self.ahead(mark)), "")

    # Who reads what the shell hands on.

    def check(self, command: Command) -> None:
        if command.offset is None:
            return
        if command.doubled:
            hint = "write > in place of >&, or 2>&1 and the like with a number"
            self.refuse("a template after >& is expanded twice by bash and", hint, command.offset)
        for rejection in rejections(command.words, fed=command.fed):
            raise TemplateSyntax(rejection.message, self.source, command.offset, rejection.hint)
        if command.into is not None and command.words[:1] in PASSES_ON:
            for rejection in rejections(command.into.words, fed=True):
                raise TemplateSyntax(rejection.message, self.source, command.offset, rejection.hint)


def opens_case(command: Command) -> int:
    """1 inside `case ... in`, whose patterns end with a parenthesis; -1 behind `esac`."""
    words = [*command.words, command.word][:1]
    return (words == ["case"]) - (words == ["esac"])
