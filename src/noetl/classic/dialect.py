"""The interface of the classic dialect for the compiler."""

from __future__ import annotations

from noetl.classic import chains
from noetl.classic.build import ClassicBuilder
from noetl.classic.language import TASK_KEYS
from noetl.classic.prepare import prepare
from noetl.classic.templates import VISIBILITY, ClassicSiteFinder
from noetl.dsl.dialect import Dialect

CLASSIC = Dialect(
    name="classic",
    document=chains.ClassicDocument,
    task_keys=TASK_KEYS,
    sites=ClassicSiteFinder,
    visibility=VISIBILITY,
    check=chains.check,
    prepare=prepare,
    builder=ClassicBuilder,
)
