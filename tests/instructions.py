"""Counts the work of a call in a way that does not depend on the machine: the bytecode instructions of noetl."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import noetl

SOURCE = str(Path(noetl.__file__).parent)


def instructions(call: Callable[[], object]) -> int:
    """How many instructions of noetl a call executes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
