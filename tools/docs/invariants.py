"""The page of invariants: what `noetl verify` proves of every log."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.engine.verify import INVARIANTS
from tools.docs.markdown import code, page, sentence, table

INTRO = """The engine promises these things of every execution, also after its process was killed at any moment.
`noetl verify` reads the stored log once, folds it again, and checks each; see
[the command](cli.md#noetl-verify)."""

ANSWER = """A violation names the execution, the number of the event where it was seen, the invariant and what is wrong.
The exit code is 1 if there is any. `-o json` prints `executions` (how many were checked) and `violations` with
`execution_id`, `seq`, `invariant` and `message`. Of each invariant the first 1,000 violations in a log are listed; one
more line says how many there are beyond these."""


def pages() -> Iterator[tuple[str, str]]:
    rows = [(code(name), sentence(" ".join(about.split()))) for name, about in INVARIANTS.items()]
    yield "reference/invariants.md", page("Invariants", INTRO, table(["Invariant", "What holds"], rows), ANSWER)
