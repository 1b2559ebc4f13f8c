"""What the compiler needs to know of a dialect. The classic one is `noetl.classic.dialect`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from noetl.dsl.canonical import Builder
from noetl.dsl.checks.scopes import VISIBILITY, Visibility
from noetl.dsl.checks.templates import SiteFinder
from noetl.dsl.outline import Document
from noetl.dsl.problem import Problems
from noetl.dsl.shape import KindSource, Shape
from noetl.dsl.tree import Map

DialectName = Literal["canonical", "classic"]


class Dialect(NamedTuple):
    name: DialectName
    document: type[Document]
    task_keys: Mapping[str, Shape]
    sites: type[SiteFinder]
    visibility: Visibility
    check: Callable[[Document, Problems], None]
    prepare: Callable[[Map, KindSource], None]
    """Rewrites a sound tree in place until `builder` can build it."""
    builder: type[Builder]


CANONICAL = Dialect(
    name="canonical",
    document=Document,
    task_keys={},
    sites=SiteFinder,
    visibility=VISIBILITY,
    check=lambda document, problems: None,
    prepare=lambda root, kinds: None,
    builder=Builder,
)
