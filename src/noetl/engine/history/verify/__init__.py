"""verify(...) checks a stored log against every invariant of the engine. Pure: rows in, violations out.

`log.py` reads the rows in one pass and passes each event to the checks of its type. A check is a class with a name, a
docstring that states the invariant, and one handler per event type; there is one file per family. A handler runs before
its event is folded, so `self.log.state` is the state when the event was written. If a damaged log cannot be folded any
further, checks that need no fold continue.

Memory is bounded by live state: a check drops its data of an item when the item ends, and of a step run when that ends.
"""

from __future__ import annotations

from noetl.engine.history.verify.log import INVARIANTS, LIVE_ONLY, Frozen, Log, Part, Violation, verify
from noetl.engine.history.verify.rows import MAX_EVENT_BYTES

__all__ = ["INVARIANTS", "LIVE_ONLY", "MAX_EVENT_BYTES", "Frozen", "Log", "Part", "Violation", "verify"]
