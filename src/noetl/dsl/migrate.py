"""A playbook of another generation, or of the classic dialect, in the canonical dialect, with its comments.

`generations.rewrite` turns the tree into one of noetl.io/v2, `classic.rewrite` a classic one into a canonical one, and
`classic.writer` writes it back. The new text compiles to the same playbook as the tree. All or nothing: a playbook that
mixes generations or dialects would be refused, so where one construct cannot be rewritten the text stays as it is
and every such construct is listed.
"""

from __future__ import annotations

from copy import deepcopy
from typing import NamedTuple

from noetl import generations
from noetl.classic.rewrite import rewrite
from noetl.classic.writer import Writer
from noetl.dsl.canonical import Builder
from noetl.dsl.compile import compile_tree, load
from noetl.dsl.problem import Check, Problem, Problems
from noetl.dsl.reader import read
from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map, Text, key_span, span_in
from noetl.errors import NoetlError
from noetl.generations.document import Remark

NOT_CANONICAL = Check("NTL601", "warning", "a construct has no canonical form")
NO_SPELLING = Check("NTL602", "error", "a construct of another generation cannot be rewritten", stored_ok=False)
TO_REVIEW = Check("NTL603", "warning", "a rewritten construct needs a review")

STEP_ORDER = ("step", "desc", "spec", "loop", "tool", "next")
LOOP_ORDER = ("in", "iterator", "spec")


class MigrationBroken(NoetlError):
    """The rewritten playbook does not mean the same, so nothing was written: this is a fault of noetl."""


class Migration(NamedTuple):
    """The result of a migration. Where there are errors or leftovers it is unchanged."""

    text: str
    changed: bool
    problems: list[Problem]
    """The problems of the playbook; after errors it was not checked further."""
    leftovers: list[Problem]
    """The constructs that cannot be rewritten."""
    notes: list[Problem]
    """Parts of the new text to review; their places are in the old text."""

    @property
    def failed(self) -> bool:
        return bool(self.leftovers) or any(problem.severity == "error" for problem in self.problems)


def migrate(file: str, data: bytes | str, kinds: KindSource) -> Migration:
    """Rewrite a playbook of another generation or of the classic dialect; a canonical one is returned unchanged."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    root, problems = read(file, data)
    if root is None:
        return Migration(text, False, problems.sorted(), [], [])
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    lines = text.removeprefix(mark).replace("\r\n", "\n")
    (old, _), (new, problems) = read(file, lines), read(file, lines)
    assert old is not None, "it was read before"
    assert new is not None, "it was read before"
    other = generations.rewrite(new, kinds)
    loaded = compile_tree(deepcopy(new), problems, kinds)
    leftovers = _problems(NO_SPELLING, other.leftovers, Text(file, lines))
    if leftovers:
        refused = {problem.line for problem in leftovers}  # the checks would only repeat these lines
        errors = [problem for problem in loaded.problems if problem.severity == "error"]
        leftovers += [problem for problem in errors if problem.line not in refused]
        return Migration(text, False, [], sorted(leftovers, key=lambda problem: problem.line), [])
    if loaded.playbook is None or (loaded.dialect == "canonical" and new == old):
        return Migration(text, False, loaded.problems, [], [])
    if loaded.dialect == "classic":
        leftovers = _rewrite_classic(new, kinds, problems.text)
        if leftovers:
            return Migration(text, False, loaded.problems, leftovers, [])
    written = Writer(lines, old).write(new)
    after = load(file, written, kinds)
    if after.playbook != Builder(new, kinds, Text("", "")).playbook() or after.dialect != "canonical":
        raise MigrationBroken(f"{file}: the rewritten playbook does not mean the same; nothing was written")
    notes = _problems(TO_REVIEW, other.notes, Text(file, lines))
    written = written.replace("\n", "\r\n") if "\r\n" in text else written
    return Migration(mark + written, True, loaded.problems, [], notes)


def _problems(check: Check, findings: list[Remark], text: Text) -> list[Problem]:
    problems = Problems(text)
    for finding in findings:
        problems.add(check, finding.place(problems), finding.message, finding.hint)
    return problems.sorted()


def _rewrite_classic(root: Map, kinds: KindSource, text: Text) -> list[Problem]:
    """Rewrite a classic document in place; returns the constructs that have no canonical form."""
    problems = Problems(text)
    for leftover in rewrite(root, kinds):
        where = leftover.container
        span = key_span(where, leftover.key) if isinstance(where, Map) else span_in(where, leftover.key)
        message = f"{leftover.construct} has no canonical form (step {leftover.step!r})"
        problems.add(NOT_CANONICAL, span, message, leftover.hint)
    if not problems.count("warning"):
        for step in root["workflow"]:
            _order(step, STEP_ORDER)
            _order(step.get("loop", Map()), LOOP_ORDER)
    return problems.sorted()


def _order(node: Map, order: tuple[str, ...]) -> None:
    pairs = sorted(node.items(), key=lambda pair: order.index(pair[0]) if pair[0] in order else len(order))
    node.clear()
    node.update(pairs)
