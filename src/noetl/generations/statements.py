"""SQL as a list of statements, which noetl.io/v2 writes as one text."""

from __future__ import annotations

from typing import Any, TypeGuard

from noetl.dsl.tree import Seq


def is_list_of_statements(value: Any) -> TypeGuard[Seq]:
    return isinstance(value, Seq) and bool(value) and all(isinstance(item, str) for item in value)


def joined(statements: list[str]) -> str:
    """The statements as one text, each on lines of its own; a semicolon never ends up in a comment."""
    texts = [text.rstrip().rstrip(";").rstrip() for text in statements]
    return "".join(f"{text}\n;\n" if "--" in text.rpartition("\n")[2] else f"{text};\n" for text in texts if text)
