"""verify(...): does a stored log keep every invariant of the engine? Pure: rows in, violations out.

`log.py` takes the rows in one pass and hands each event to the checks of its type. A check is a class with a name, a
docstring that is the invariant, and one handler per event type it is about; there is one file per family. A handler
runs before its event is folded, so `self.log.state` is what was known when the event was written. Checks that need no
fold go on where a damaged log can't be folded any further.

Memory follows what is alive: a check drops its notes of an item when the item ends, and of a step run when that ends.
"""

from __future__ import annotations

from noetl.engine.verify.log import INVARIANTS, LIVE_ONLY, Derived, Frozen, Log, NetOf, Part, Violation, verify
from noetl.engine.verify.rows import MAX_EVENT_BYTES, Load

__all__ = [
    "INVARIANTS",
    "LIVE_ONLY",
    "MAX_EVENT_BYTES",
    "Derived",
    "Frozen",
    "Load",
    "Log",
    "NetOf",
    "Part",
    "Violation",
    "verify",
]
