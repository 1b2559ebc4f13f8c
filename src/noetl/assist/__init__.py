"""Completion and hover for editors: a pure function of a text and a position."""

from __future__ import annotations

from noetl.assist.assist import assist
from noetl.assist.completion import Assist, Completion, Hover, Position

__all__ = ["Assist", "Completion", "Hover", "Position", "assist"]
