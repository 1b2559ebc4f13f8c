"""Completion and hover for editors: a pure function of a text and a position."""

from __future__ import annotations

from noetl.assist.answer import Assist, Completion, Hover, Position
from noetl.assist.assist import assist

__all__ = ["Assist", "Completion", "Hover", "Position", "assist"]
