"""The items of the branches of a classic step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from noetl.dsl.tree import Map


class ChainItem(NamedTuple):
    """An item of a branch: a call by its name, `sink`, `set` or `next`."""

    name: str
    body: Any
    container: Map

    @property
    def is_call(self) -> bool:
        return self.name not in ("sink", "set", "next")


def chain_items(branch: Map) -> Iterator[ChainItem]:
    chain = branch.get("then", branch.get("else"))
    if isinstance(chain, Map):
        yield from (ChainItem(name, chain[name], chain) for name in ("sink", "set", "next") if name in chain)
        return
    for item in chain or []:
        ((name, body),) = item.items()
        yield ChainItem(name, body, item)


def tool_items(branch: Map) -> list[ChainItem]:
    """The items of a branch that call a tool: its calls, and its sink."""
    return [item for item in chain_items(branch) if item.name not in ("next", "set")]


def step_items(step: Map) -> Iterator[ChainItem]:
    return (item for branch in step.get("case", []) for item in chain_items(branch))
