"""The page of invariants: what `noetl verify` checks."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.engine.verify import INVARIANTS
from tools.docs.markdown import code, page, sentence, table

INTRO = """These invariants hold for every execution, even if its process is killed at any moment. `noetl verify` reads
the stored log once, computes the state again, and checks each invariant; see [the command](cli.md#noetl-verify)."""

ANSWER = """A violation names the execution, the number of the event, the invariant and what is wrong. The exit code is
1 if there is any. `-o json` prints `executions` (the number checked) and `violations` with `execution_id`,
`seq`, `invariant` and `message`. The first 1,000 violations of each invariant in a log are listed, then the number of
the others."""


def pages() -> Iterator[tuple[str, str]]:
    rows = [(code(name), sentence(" ".join(about.split()))) for name, about in INVARIANTS.items()]
    yield "reference/invariants.md", page("Invariants", INTRO, table(["Invariant", "What holds"], rows), ANSWER)
