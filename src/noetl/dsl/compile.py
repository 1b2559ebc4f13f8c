"""Text to playbook: read, check, rewrite what is classic, build. The one entrance to the language."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from noetl.dsl import classic, outline
from noetl.dsl.canonical import Builder
from noetl.dsl.checks import names, net, policies, size, templates
from noetl.dsl.document import ROOT
from noetl.dsl.problem import Check, Problem, Problems
from noetl.dsl.reader import read
from noetl.dsl.shape import KindSource, Walk
from noetl.dsl.tree import Map, Mark, Text, key_span
from noetl.errors import PlaybookInvalid
from noetl.model.playbook import Playbook

TOO_EXPENSIVE = Check(
    "NTL010",
    "error",
    "the playbook is too expensive to compile",
    "A server compiles a playbook within 5 s of CPU time, so that one playbook does not block the others. Most "
    "playbooks take less than a tenth of that. Split a larger one into several that call each other, or simplify its "
    "templates and its net.",
)


class Loaded(NamedTuple):
    """What became of a text: a playbook unless there are errors, and everything that was found."""

    playbook: Playbook | None
    problems: list[Problem]
    dialect: Literal["canonical", "classic"]
    places: dict[str, Mark]
    """Where each part stands: `STEP`, `STEP/LABEL`, `STEP/next/0`, `STEP/LABEL/rules/0` and behind that a ctx key,
    `STEP/LABEL/code` for program text."""

    def require(self) -> Playbook:
        """The playbook; PlaybookInvalid with all problems if there is none."""
        if self.playbook is None:
            raise PlaybookInvalid(self.problems)
        return self.playbook


def load(file: str, data: bytes | str, kinds: KindSource, *, strict: bool = False) -> Loaded:
    """Read, check and compile a playbook. Never raises for what the text contains."""
    root, problems = read(file, data)
    if root is None:
        return Loaded(None, problems.sorted(), "canonical", {})
    is_classic = classic.is_classic(root)
    dialect: Literal["canonical", "classic"] = "classic" if is_classic else "canonical"
    if is_classic and strict:
        where, construct = classic.first_construct(root)
        message = f"{construct!r} makes this playbook a classic one, which `--strict` refuses"
        problems.add(names.CLASSIC_REFUSED, key_span(where, construct), message, "rewrite it with `noetl migrate`")
    ROOT.check(root, root.span, Walk(problems, is_classic, kinds, _defaults(root, kinds)))
    names.check(root, problems, is_classic)
    policies.check(root, problems)
    templates.check(root, problems, kinds, is_classic)
    if not problems.count("error"):
        size.check(root, problems)
    if problems.count("error"):
        return Loaded(None, problems.sorted(), dialect, {})
    playbook, places = _build(root, problems, kinds, is_classic)
    return Loaded(playbook, problems.sorted(), dialect, places)


def too_expensive(file: str, data: bytes, why: str) -> Loaded:
    """The result for a playbook whose compilation was aborted."""
    problems = Problems(Text(file, data.decode("utf-8", "replace")))
    hint = "split it into several playbooks that call each other, or simplify its templates and its net"
    problems.add(TOO_EXPENSIVE, 0, f"the playbook {why}", hint)
    return Loaded(None, problems.sorted(), "canonical", {})


def _defaults(root: Map, kinds: KindSource) -> dict[str, set[str]]:
    """Inputs by kind that some outer scope gives; a task need not repeat them."""
    executor = root.get("executor")
    layers: list[Any] = [executor.get("spec") if isinstance(executor, dict) else None]
    workflow = root.get("workflow")
    for step in workflow if isinstance(workflow, list) else []:
        if isinstance(step, dict):
            loop = step.get("loop")
            layers += [step.get("spec"), loop.get("spec") if isinstance(loop, dict) else None]
    found: dict[str, set[str]] = {}
    for layer in layers:
        for name, value in layer.items() if isinstance(layer, dict) else ():
            if isinstance(value, dict) and kinds.get(name) is not None:
                found.setdefault(name, set()).update(value)
    return found


def _build(root: Map, problems: Problems, kinds: KindSource, is_classic: bool) -> tuple[Playbook, dict[str, Mark]]:
    declared = {step["step"] for step in outline.steps(root) if "join" in step.get("spec", {})}
    if "join" in root.get("executor", {}).get("spec", {}):
        declared |= {step["step"] for step in outline.steps(root)}
    if is_classic:
        classic.prepare(root, kinds)
    builder = Builder(root, kinds, problems.text.mark)
    playbook = builder.playbook()

    def report(check: Check, place: str, message: str, hint: str | None) -> None:
        problems.add_at(check, builder.places[place], message, hint)

    net.check(playbook, declared, report)
    return playbook, builder.places
