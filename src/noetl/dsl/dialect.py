"""A dialect, as the compiler uses it. The classic one is `noetl.classic.dialect`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from noetl.dsl.canonical import Builder
from noetl.dsl.checks.templates import SiteFinder
from noetl.dsl.document_parts import Document
from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map

DialectName = Literal["canonical", "classic"]


class Dialect(NamedTuple):
    """The defaults are the canonical dialect."""

    name: DialectName = "canonical"
    document: type[Document] = Document
    sites: type[SiteFinder] = SiteFinder
    prepare: Callable[[Map, KindSource], None] = lambda root, kinds: None
    """Rewrites a sound tree in place until `builder` can build it."""
    builder: type[Builder] = Builder
