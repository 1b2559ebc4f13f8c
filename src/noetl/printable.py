"""Text of others on a terminal: what a task printed, what an API answered, what a playbook is called.

A terminal obeys what it reads. Escape sequences set its title, write its clipboard or clear the screen, a carriage
return or a backspace writes over what stood there, and bidirectional controls show text in another order than it is
in. So every character that a terminal acts on is shown as an escape, such as `\\x1b` or `\\u202e`, and none is obeyed.
"""

from __future__ import annotations

import re

COMMANDS = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
"""DEL, C1, bidirectional controls, separators of lines, and halves of characters, which have no bytes."""
UNSAFE = re.compile(f"[\x00-\x08\x0a-\x1f{COMMANDS}]")
UNSAFE_BUT_LINES = re.compile(f"[\x00-\x08\x0b-\x1f{COMMANDS}]")
IN_JSON = re.compile(f"[{COMMANDS}]")


def printable(text: str, *, lines: bool = False) -> str:
    """The text as it can be shown on a terminal: on one line, or with its line breaks if it has `lines`."""
    if text.isprintable():
        return text
    return (UNSAFE_BUT_LINES if lines else UNSAFE).sub(_escape, text)


def printable_json(text: str) -> str:
    """JSON of the same value that can be shown on a terminal: encoders leave everything above 0x7e as it is."""
    return text if text.isascii() and "\x7f" not in text else IN_JSON.sub(_escape_in_json, text)


def is_printable(text: str) -> bool:
    """Whether a text of several lines can be shown as it is."""
    return UNSAFE_BUT_LINES.search(text) is None


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def _escape_in_json(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
