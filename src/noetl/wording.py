"""Numbers, paths and long texts in messages."""

from __future__ import annotations

from collections.abc import Iterable


def counted(number: int, noun: str) -> str:
    """`1 run`, `1,200 runs`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def path_text(path: Iterable[str | int]) -> str:
    """Keys and indexes behind a name: `.rows[0].id`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def cut(text: str, length: int) -> str:
    """The text, or its beginning with an ellipsis, in at most `length` characters."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
