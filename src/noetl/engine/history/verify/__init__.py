"""Checks a stored log against every invariant of the engine. Pure: rows in, violations out.

`log.py` reads the rows in one pass and passes each event to the checks of its type. A check is a class with a name, a
docstring that states the invariant, and one handler per event type; there is one file per family. A handler runs before
its event is folded, so `self.log.state` is the state when the event was written. If a damaged log cannot be folded any
further, checks that need no fold continue.

Memory is bounded by live state: a check drops its data of an item when the item ends, and of a step run when that ends.
"""

from __future__ import annotations

from noetl.engine.history.verify.log import LogCheck
from noetl.engine.history.verify.steps import Branches, Cancelled, Ctx, Forks, OneEnd, Runs, Tokens
from noetl.engine.history.verify.tasks import Fences, Loops, Outcomes

CHECKS: tuple[type[LogCheck], ...] = (OneEnd, Tokens, Runs, Outcomes, Fences, Ctx, Loops, Branches, Cancelled, Forks)
INVARIANTS: dict[str, str] = {
    "seq": "Rows are numbered 1, 2, 3 and so on.",
    "hash_chain": "Each row carries a hash over itself and the row before it.",
    "size": "An event is at most 64 KiB.",
    "references": "All content that a row refers to is stored and unchanged.",
    **{kind.name: kind.__doc__ or "" for kind in CHECKS},
    "readable": "Every row can be read.",
    "snapshot": "A snapshot is the fold of the log up to its row.",
    "outline": "A stored block of the outline equals the one computed from its events and the block before.",
    "rows": "The rows of ready work, leases and timers equal those of the log.",
    "last_commit": "The database has the last event that was recorded as committed to it.",
    "replay": "The log can be folded, and the fold equals the stored row of the execution.",
}
