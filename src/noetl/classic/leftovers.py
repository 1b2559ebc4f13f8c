"""Constructs that cannot be written in the canonical dialect."""

from __future__ import annotations

from collections.abc import Set
from contextlib import suppress
from typing import Any, NamedTuple

from noetl.classic.names import templates_in
from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map, Seq
from noetl.errors import TemplateSyntax
from noetl.expression import parse


class Leftover(NamedTuple):
    """A construct that remains classic: its place, and a hint."""

    step: str
    container: Map | Seq
    key: Any
    construct: str
    hint: str


class Leftovers(list[Leftover]):
    def __init__(self, kinds: KindSource) -> None:
        super().__init__()
        self.kinds, self.step = kinds, ""

    def refuse(self, container: Map | Seq, key: Any, construct: str, hint: str) -> None:
        self.append(Leftover(self.step, container, key, construct, hint))

    def refuse_reads(self, container: Map | Seq, key: Any, names: Set[str], where: str) -> None:
        """Refuse templates that read names which do not exist at their new place."""
        for holder, at, text in templates_in(container, self.kinds, key):
            with suppress(TemplateSyntax):
                for read in parse(text).reads:
                    if read.path[0] in names or ".".join(map(str, read.path[:2])) in names:
                        hint = "store the value in `vars`, or read `steps.NAME.result`"
                        self.refuse(holder, at, f"`{read.path[0]}` {where}", hint)
