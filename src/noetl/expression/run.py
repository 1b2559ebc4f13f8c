"""One evaluation under way: its budget, the template's own variables, `namespace` and `loop`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noetl.expression.budget import CHARACTERS, Budget
from noetl.expression.text import to_text
from noetl.expression.values import Contents, Fault, OutOfBudget, Sealed, View


class Evaluation:
    __slots__ = ("budget", "holes", "locals", "out", "sealed", "size")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.locals: dict[str, Any] = {}
        self.out: list[str] = []
        self.size = 0
        self.holes = False  # a missing value was put into a list or map
        self.sealed = False  # a secret was printed

    def print(self, value: Any) -> None:
        """Appends the text of a value to the output; a secret makes all of it secret."""
        if type(value) is Sealed:
            self.sealed, value = True, value.content
        text = value if type(value) is str else to_text(value, self.budget)
        self.size += len(text)
        if self.size > CHARACTERS:
            raise OutOfBudget(f"the result may have at most {CHARACTERS:,} characters")
        self.out.append(text)


class Namespace(View):
    """What `{% set ns = namespace() %}` binds. Elsewhere it is a map: nobody else sees the object."""

    __slots__ = ("fields",)

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def lookup(self, name: str | int, contents: Contents) -> Any:
        return self.fields[name]  # type: ignore[index]

    def value(self, contents: Contents) -> Any:
        return dict(self.fields)


class LoopVariable(View):
    __slots__ = ("index0", "items")

    def __init__(self, items: Sequence[Any]) -> None:
        self.items, self.index0 = items, 0

    def lookup(self, name: str | int, contents: Contents) -> Any:
        place, count = self.index0, len(self.items)
        match name:
            case "index":
                return place + 1
            case "index0":
                return place
            case "first":
                return place == 0
            case "last":
                return place == count - 1
            case "length":
                return count
            case "revindex":
                return count - place
            case "revindex0":
                return count - place - 1
            case "previtem" if place > 0:
                return self.items[place - 1]
            case "nextitem" if place < count - 1:
                return self.items[place + 1]
        raise KeyError(name)

    def value(self, contents: Contents) -> Any:
        raise Fault("'loop' is not a value", "use loop.index, loop.first, loop.last, loop.length ...")
