"""Compiles text to a playbook: reads, checks and builds it. The only entry point of the language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from noetl.classic.detect import first_construct, is_classic
from noetl.classic.language import ROOT, TASK_KEYS
from noetl.classic.nodes import as_list, as_map
from noetl.dsl.checks import code, credentials, effects, names, net, policies, schemas, size, tables, templates
from noetl.dsl.dialect import Dialect, DialectName
from noetl.dsl.payload import PlaybookInputs
from noetl.dsl.problem import Check, FileHint, Problem, Problems
from noetl.dsl.reader import read
from noetl.dsl.shape import KindSource, Walk
from noetl.dsl.tree import Map, Mark, Text, key_span
from noetl.errors import PlaybookInvalid
from noetl.model.playbook import Playbook

CPU_SECONDS = 2.0  # for one text, in a command and on a server, with everything that is made of it
TOO_EXPENSIVE = Check("NTL010", "error", "the playbook is too expensive to compile", stored_ok=False)


class Loaded(NamedTuple):
    """A text after compilation: its playbook, unless there are errors, and its problems."""

    playbook: Playbook | None
    problems: list[Problem]
    dialect: DialectName
    places: dict[str, Mark]
    """The place of each part: `STEP`, `STEP/LABEL`, `STEP/next/0`, `STEP/LABEL/rules/0` and behind that a ctx key,
    `STEP/LABEL/code` for program text and `STEP/LABEL/code/1` for its first line, `STEP/LABEL/input/requirements/0`
    and `STEP/input/loop/in` for inputs that errors may name, `keychain/NAME`."""
    inputs: PlaybookInputs = PlaybookInputs()

    def require(self) -> Playbook:
        """The playbook; PlaybookInvalid with all problems if there is none."""
        if self.playbook is None:
            raise PlaybookInvalid(self.problems)
        return self.playbook


def load(file: str, data: bytes | str, kinds: KindSource, *, strict: bool = False, stored: bool = False) -> Loaded:
    """Read, check and compile a playbook. Never raises because of the content of the text. A `stored` text was valid
    when it was stored, so it is compiled in spite of errors of checks with `stored_ok`."""
    root, problems = read(file, data)
    if root is None:
        return Loaded(None, problems.sorted(), "canonical", {})
    return compile_tree(root, problems, kinds, strict=strict, stored=stored)


def compile_tree(
    root: Map, problems: Problems, kinds: KindSource, *, strict: bool = False, stored: bool = False
) -> Loaded:
    """Check and compile a tree, which it changes; its problems are added to those of reading."""
    dialect, classic = Dialect(), is_classic(root)
    if classic:
        from noetl.classic.dialect import CLASSIC as dialect  # several modules that a canonical playbook does not need
    if strict and classic:
        where, construct = first_construct(root)
        message = f"{construct!r} makes this playbook a classic one, which `--strict` refuses"
        hint = FileHint("rewrite it with", "noetl", "migrate")
        problems.add(names.CLASSIC_REFUSED, key_span(where, construct), message, hint)
    walk = Walk(problems, classic, kinds, _defaults(root, kinds), TASK_KEYS if classic else {}, [])
    ROOT.check(root, root.span, walk)
    document = dialect.document(root)
    names.check(document, problems)
    credentials.check(document, kinds, problems)
    policies.check(document, problems)
    effects.check(document, kinds, problems)
    code.check(document, problems)
    schemas.check(document, problems)
    document.check(problems)
    inputs = templates.check(dialect.sites(document, problems, kinds))
    if not problems.count("error"):
        size.check(document, problems)
    if problems.count("error") and not (stored and problems.stored_ok()):
        return Loaded(None, problems.sorted(), dialect.name, {})
    declared = {step["step"] for step in document.steps if "join" in step.get("spec", {})}
    if "join" in document.executor_spec:
        declared = set(document.step_names)
    dialect.prepare(root, kinds)
    builder = dialect.builder(root, kinds, problems.text)
    playbook = builder.playbook()

    def report(check: Check, place: str, message: str, hint: str | None, path: Sequence[str]) -> None:
        problems.add_at(check, builder.places[place], message, hint, path)

    net.check(playbook, declared, report)
    tables.check(playbook, kinds, report)
    if problems.count("error") and not stored:
        return Loaded(None, problems.sorted(), dialect.name, {})
    return Loaded(playbook, problems.sorted(), dialect.name, builder.places, inputs)


def too_expensive(file: str, data: bytes, reason: str) -> Loaded:
    """The result for a playbook whose compilation was aborted."""
    problems = Problems(Text(file, data.decode("utf-8", "replace")))
    hint = "split it into several playbooks that call each other, or simplify its templates and its net"
    problems.add(TOO_EXPENSIVE, 0, f"the playbook {reason}", hint)
    return Loaded(None, problems.sorted(), "canonical", {})


def _defaults(root: Map, kinds: KindSource) -> dict[str, set[str]]:
    layers: list[Any] = [as_map(root.get("executor")).get("spec")]
    for step in map(as_map, as_list(root.get("workflow"))):
        layers += [step.get("spec"), as_map(step.get("loop")).get("spec")]
    defaults: dict[str, set[str]] = {}
    for name, value in (pair for layer in layers for pair in as_map(layer).items()):
        if isinstance(value, Map) and kinds.get(name) is not None:
            defaults.setdefault(name, set()).update(value)
    return defaults
