"""Scans a command as a shell reads it, to find the context of each template."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Literal, NamedTuple, NoReturn

from noetl.errors import TemplateSyntax
from noetl.expression.pieces import Piece
from noetl.shell_text.code import AS_NUMBER, OUTPUT, SUBSCRIPT, TEMPLATE, Command, Rejection, rejections, tainted

SEPARATORS = " \t\n;&|()<>"
CLOSES = {"$((": "))", "$(": ")", "${": "}", "`": "`", "'": "'", '"': '"', "(": ")", "[": "]"}
NESTED = {"))": ["("], ")": ["("], "]": ["["]}
DEFAULT_VALUE = re.compile(r"\$\{([A-Za-z_]\w*|[0-9]+|[@*#?$!-]):?[-=+?]")
"""The beginning of `${name:-word}`, `${name=word}` and the like."""


Context = Literal["program", "alone", "outside", "inside", "single", "number"]
"""The first word of the text, another whole word outside quotes, a part of one, inside double quotes, inside single
ones, inside `$(( ))`."""


class TemplateUse(NamedTuple):
    number: int
    context: Context
    offset: int


Plan = list[str | TemplateUse]


class HereDocument(NamedTuple):
    delimiter: str
    quoted: bool
    strips_tabs: bool
    command: Command


class Scanner:
    """Reads a command by the grammar of the shell. `out` is what was read, with a TemplateUse for each template."""

    def __init__(self, pieces: list[Piece], source: str) -> None:
        self.source = source
        self.offsets = [source.rindex("{{", 0, piece.offset) for piece in pieces if not isinstance(piece, str)]
        texts = [piece if isinstance(piece, str) else TEMPLATE for piece in pieces]
        self.text = "".join(texts)
        starts = zip(accumulate(map(len, texts), initial=0), pieces, strict=False)
        positions = (start for start, piece in starts if not isinstance(piece, str))
        self.numbers = {position: number for number, position in enumerate(positions)}
        """Positions of templates in the text, with the number of each."""
        self.position = 0
        self.out: Plan = []
        self.documents: list[HereDocument] = []
        self.in_escaped_backticks = False
        """Inside backticks with escapes, which are undone before the shell reads them."""
        self.in_arithmetic = 0
        """Depth of `$(( ))`, where the shell evaluates the result of an expansion."""

    def plan(self) -> Plan:
        try:
            self.commands("")
        except RecursionError:
            raise TemplateSyntax("the command is nested too deeply", self.source, 0) from None
        plan: Plan = []
        for part in self.out:
            if isinstance(part, str) and plan and isinstance(plan[-1], str):
                plan[-1] += part
            else:
                plan.append(part)
        return plan

    def use(self, context: Context, command: Command) -> None:
        if self.in_escaped_backticks:
            self.refuse("a template in backticks with escapes", "write $( ) in place of the backticks")
        if self.in_arithmetic and context != "number":
            self.refuse("a template in a command inside $(( ))", AS_NUMBER)
        number = self.numbers[self.position]
        if command.offset is None:
            command.offset = self.offsets[number]
        command.add(TEMPLATE)
        self.out.append(TemplateUse(number, context, self.offsets[number]))
        self.position += 1

    @property
    def next(self) -> str:
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

    def refuse(self, construct: str, hint: str) -> NoReturn:
        offset = self.offsets[self.numbers[self.position]]
        self.reject(Rejection(f"{construct} cannot be made safe", hint), offset)

    def reject(self, rejection: Rejection, offset: int) -> NoReturn:
        raise TemplateSyntax(rejection.message, self.source, offset, rejection.hint)

    def commands(self, end: str) -> int | None:
        """Read a list of commands up to its end; return the offset of its first template."""
        command, first, cases, pipeline = Command(), None, 0, list[Command]()

        def finish(piped: bool = False) -> None:
            nonlocal command, first, cases
            command.end_word()
            pipeline.append(command)
            first = command.offset if first is None else first
            cases += command.case_depth
            command = Command()
            if piped:
                pipeline[-1].pipes_into = command
            else:
                for finished in pipeline:
                    self.check(finished)
                pipeline.clear()

        while (item := self.next) != "":
            if item == end and (end == "`" or cases + command.case_depth == 0):
                break
            if item == "\n":
                finish()
                self.take()
                self.read_documents()
            elif self.ahead("&>"):
                self.take()
            elif item in ";&|)":
                finish(piped=item == "|" and not self.ahead("||"))
                self.take(2 if self.ahead("||") else 1)
            elif item == "(":
                self.parenthesis(command)
            elif item in "<>":
                self.redirection(command)
            else:
                self.word_or_blank(item, command)
        finish()
        return first

    def word_or_blank(self, item: str, command: Command) -> None:
        if self.at_template:
            following = self.text[self.position + 1 : self.position + 2]
            alone = command.word is None and command.redirection is None and following in (*SEPARATORS, "`", "")
            first = not self.text[: self.position].strip()
            self.use(("program" if first else "alone") if alone else "outside", command)
        elif item in " \t\n":
            command.end_word()
            self.take()
        elif item == "#" and command.word is None:
            while self.next not in ("", "\n"):
                if self.at_template:
                    self.position += 1  # its source may have several lines
                else:
                    self.take()
        else:
            self.word_part(item, command, quoted=False)

    def substitution(self, end: str, command: Command) -> None:
        offset = self.commands(end)
        if offset is not None:
            command.add(OUTPUT)
            command.offset = offset if command.offset is None else command.offset
        if self.next == end:
            self.take()

    def parenthesis(self, command: Command) -> None:
        if command.word is None and self.ahead("(("):
            self.take(2)
            self.without_templates("))", "(( ))", "write $(( )) for a number, or `( (` for a subshell")
            return
        self.take()
        if re.fullmatch(r"[A-Za-z_]\w*\+?=", command.word or ""):
            self.compound(command)
        else:
            self.substitution(")", command)

    def compound(self, command: Command) -> None:
        """Read the words of `a=(...)`. The shell evaluates the subscript of `[...]=word`, quoted or not."""
        inner = Command()
        is_tainted = False
        while True:
            item, unquoted = self.next, self.at_template
            if item in ("", " ", "\t", "\n", ")"):
                if inner.offset is not None and re.match(r"\[[^\]]*[\0\1]", inner.word or ""):
                    self.reject(SUBSCRIPT, inner.offset)
                is_tainted = is_tainted or tainted(inner.word or "")
                inner = Command()
            if item in ("", ")"):
                break
            self.word_or_blank(item, inner)
            if unquoted and command.offset is None:
                command.offset = inner.offset
        self.take()
        command.add(OUTPUT if is_tainted else "")

    def redirection(self, command: Command) -> None:
        command.end_word()
        if self.ahead("<<<"):
            command.redirection = self.take(3)
        elif self.ahead("<<"):
            self.announce(command)
        elif self.ahead("<(") or self.ahead(">("):
            self.take()
            self.parenthesis(command)
        else:
            command.redirection = self.take()
            while self.next in ("<", ">", "&", "|"):
                command.redirection += self.take()
        if command.redirection is not None:
            self.take_blanks()

    def announce(self, command: Command) -> None:
        self.take(2)
        strips_tabs = self.next == "-"
        if strips_tabs:
            self.take()
        self.take_blanks()
        delimiter = Command()
        quoted = False
        while (item := self.next) != "" and item not in SEPARATORS:
            if self.at_template:
                self.refuse("a template as the end mark of a here-document", "write a fixed word after <<")
            quoted = quoted or item in "'\"\\"
            self.word_part(item, delimiter, quoted=False)
        self.documents.append(HereDocument(delimiter.word or "", quoted, strips_tabs, command))

    def read_documents(self) -> None:
        documents, self.documents = self.documents, []
        for document in documents:
            while self.next != "":
                end = self.text.find("\n", self.position)
                line = self.text[self.position : len(self.text) if end < 0 else end]
                if (line.lstrip("\t") if document.strips_tabs else line) == document.delimiter:
                    self.take(len(line) + 1)
                    break
                self.read_line(document)
            self.check(document.command)

    def read_line(self, document: HereDocument) -> None:
        line = Command()
        while (item := self.next) not in ("", "\n"):
            if self.at_template:
                if document.quoted:
                    hint = f"write <<{document.delimiter} without quotes, and a backslash before each $ and ` to keep"
                    self.refuse("a template in a here-document whose end mark is quoted", hint)
                self.use("inside", line)
            elif document.quoted:
                self.take()
            else:
                self.word_part(item, line, quoted=True)
        if line.offset is not None:
            document.command.fed = True
            document.command.offset = document.command.offset or line.offset
        if self.next == "\n":
            self.take()

    def word_part(self, item: str, command: Command, *, quoted: bool) -> None:
        """Read a part of a word, or of double quotes and here-documents."""
        if item == "\\":
            self.take()
            if self.at_template:
                self.refuse("a template after a backslash", "leave the backslash out: a value needs none")
            escaped = self.take()
            if escaped != "\n":
                command.add(escaped)
        elif item == "`":
            self.take()
            before = self.in_escaped_backticks
            special = re.compile(r"[\\`]").search(self.text, self.position)
            self.in_escaped_backticks = before or (special is not None and special[0] == "\\")
            self.substitution("`", command)
            self.in_escaped_backticks = before
        elif item == "$":
            self.dollar(command, quoted)
        elif item in "'\"" and not quoted:
            command.add("")
            self.take()
            self.quotes(item, "single" if item == "'" else "inside", command)
        else:
            command.add(self.take())

    def quotes(self, end: str, context: Context, command: Command) -> None:
        while (item := self.next) not in ("", end):
            if self.at_template:
                self.use(context, command)
            elif context == "single":
                command.add(self.take())
            else:
                self.word_part(item, command, quoted=context == "inside")
        self.take()

    def dollar(self, command: Command, quoted: bool) -> None:
        if self.position + 1 in self.numbers:
            self.out.append("\\")  # a literal dollar sign: unescaped it would join the reference after it
            command.add(self.take())
        elif self.ahead("$(("):
            self.take(3)
            self.arithmetic(command)
        elif self.ahead("$("):
            self.take(2)
            self.substitution(")", command)
        elif head := DEFAULT_VALUE.match(self.text, self.position):
            self.take(len(head[0]))
            self.quotes("}", "inside" if quoted else "outside", command)
        elif self.ahead("${"):
            self.take(2)
            self.without_templates("}", "${ }", "give the value a name under `env` and use that")
        elif self.ahead("$["):
            self.take(2)
            self.without_templates("]", "$[ ]", "write $(( )) in its place")
        elif self.ahead("$'") and not quoted:
            self.take(2)
            self.without_templates("'", "$'...'", "close it before the template and open it again after it")
        else:
            command.add(self.take())

    def arithmetic(self, command: Command) -> None:
        depth = 0
        self.in_arithmetic += 1
        while (item := self.next) != "":
            if depth == 0 and self.ahead("))"):
                self.take(2)
                break
            if self.at_template:
                self.use("number", command)
            elif item in "$`":
                self.word_part(item, command, quoted=True)
            else:
                depth += (item == "(") - (item == ")")
                self.take()
        self.in_arithmetic -= 1

    def without_templates(self, end: str, construct: str, hint: str) -> None:
        """Read a part with expansions of its own, in which templates are not allowed."""
        escapes = construct == "$'...'"  # elsewhere single quotes have none
        ends = [end]
        while ends and self.next != "":
            inside = ends[-1]
            marks = ["$((", "$(", "${", "`", *(["'", '"'] if inside != '"' else []), *NESTED.get(inside, [])]
            if self.at_template:
                self.refuse(f"a template inside {construct}", hint)
            if self.ahead(inside):
                self.take(len(ends.pop()))
            elif self.next == "\\" and (escapes or inside != "'"):
                self.take()
                if not self.at_template:
                    self.take()
            elif inside != "'" and (opened := next(filter(self.ahead, marks), "")):
                self.take(len(opened))
                ends.append(CLOSES[opened])
            else:
                self.take()

    def check(self, command: Command) -> None:
        for rejection in rejections(command) if self.offsets else ():  # without a template nothing is unsafe
            self.reject(rejection, self.offsets[0] if command.offset is None else command.offset)
