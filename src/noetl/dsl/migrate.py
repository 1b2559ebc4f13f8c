"""A classic playbook in the canonical dialect, with its comments.

`classic.rewrite` rewrites the tree and `classic.writer` writes it back. The new text compiles to the same playbook as
the tree, which behaves as the classic one did. It is all or nothing: a playbook that mixes the dialects would be
refused, so where one construct has no canonical form the text stays as it is and every such construct is listed.
"""

from __future__ import annotations

from typing import NamedTuple

from noetl.classic.rewrite import rewrite
from noetl.classic.writer import Writer
from noetl.dsl.canonical import Builder
from noetl.dsl.compile import load
from noetl.dsl.problem import Check, Problem
from noetl.dsl.reader import read
from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map, Text, key_span, span_in
from noetl.errors import NoetlError

NOT_CANONICAL = Check("NTL601", "warning", "a construct has no canonical form")

STEP_ORDER = ("step", "desc", "spec", "loop", "tool", "next")
LOOP_ORDER = ("in", "iterator", "spec")


class MigrationBroken(NoetlError):
    """The rewritten playbook does not mean the same, so nothing was written: this is a fault of noetl."""


class Migration(NamedTuple):
    """What became of a text. Where there are errors or leftovers it is unchanged."""

    text: str
    changed: bool
    problems: list[Problem]
    """What is wrong with the playbook; errors among it mean that it was not looked at further."""
    leftovers: list[Problem]

    @property
    def failed(self) -> bool:
        return bool(self.leftovers) or any(problem.severity == "error" for problem in self.problems)


def migrate(file: str, data: bytes | str, kinds: KindSource) -> Migration:
    """Rewrite a playbook in the canonical dialect; one that is canonical comes back as it is."""
    before = load(file, data, kinds)
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    if before.playbook is None or before.dialect == "canonical":
        return Migration(text, False, before.problems, [])
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    lines = text.removeprefix(mark).replace("\r\n", "\n")
    (old, _), (new, problems) = read(file, lines), read(file, lines)
    assert old is not None, "it was read before"
    assert new is not None, "it was read before"
    leftovers = rewrite(new, kinds)
    for leftover in leftovers:
        where = leftover.container
        span = key_span(where, leftover.key) if isinstance(where, Map) else span_in(where, leftover.key)
        message = f"{leftover.construct} has no canonical form (step {leftover.step!r})"
        problems.add(NOT_CANONICAL, span, message, leftover.hint)
    if leftovers:
        listed = [problem for problem in problems.sorted() if problem.code == NOT_CANONICAL.code]
        return Migration(text, False, before.problems, listed)
    for step in new["workflow"]:
        _order(step, STEP_ORDER)
        _order(step.get("loop", Map()), LOOP_ORDER)
    written = Writer(lines, old).write(new)
    after = load(file, written, kinds)
    if after.playbook != Builder(new, kinds, Text("", "")).playbook() or after.dialect != "canonical":
        raise MigrationBroken(f"{file}: the rewritten playbook does not mean the same; nothing was written")
    return Migration(mark + (written.replace("\n", "\r\n") if "\r\n" in text else written), True, before.problems, [])


def _order(node: Map, order: tuple[str, ...]) -> None:
    pairs = sorted(node.items(), key=lambda pair: order.index(pair[0]) if pair[0] in order else len(order))
    node.clear()
    node.update(pairs)
