"""Names, filters and tests inside a template that is being typed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from noetl.assist.completion import Completion, CompletionKind
from noetl.assist.loose_reader import PathPart
from noetl.assist.names import DocumentNames, LooseTask
from noetl.classic.document_parts import CLASSIC_PLACES, ClassicSiteFinder
from noetl.classic.nodes import as_map
from noetl.dsl.checks.scopes import PLACES
from noetl.dsl.root_names import NAMES
from noetl.dsl.shape import KindSource
from noetl.dsl.tree import Map
from noetl.expression import FILTERS, FUNCTIONS, SQL_FILTERS, TESTS, Entry
from noetl.model.inputs import describe
from noetl.model.outcome import Error
from noetl.model.playbook import STEP_FIELDS

MAX_LOOKBACK = 10_000  # characters before the cursor that are searched for the start of its template
MAX_PATH_LENGTH = 300

Mode = Literal["name", "member", "filter", "test"]

_WORD = re.compile(r"\w*\Z")
_TEST = re.compile(r"\bis(?:\s+not)?\s+\Z")
_PATH = re.compile(r"(?:[^\W\d]\w*)(?:\.\w+|\[(?:\d+|'[^']*'|\"[^\"]*\")\])*\.?\Z")
_PART = re.compile(r"\w+|'[^']*'|\"[^\"]*\"")
_INDEX = re.compile(r"(\w+(?:\.\w+)*)\[['\"]([\w.-]*)\Z")
_STRINGS = re.compile(r"'[^'\\]*(?:\\.[^'\\]*)*'|\"[^\"\\]*(?:\\.[^\"\\]*)*\"", re.DOTALL)

_ERROR_DOCS = ("Its kind, such as `timeout`.", "The message.", "Whether another attempt may succeed.", "More about it.")
ERROR_FIELDS = dict(zip(Error.__struct_fields__, _ERROR_DOCS, strict=True))
OUTCOME_FIELDS = {
    "status": "`ok` or `error`.",
    "result": "The result of the call.",
    "error": "The error, null if the call succeeded.",
    "meta": "Attempt, duration and the like.",
}
FIELDS: Mapping[str, Mapping[str, str]] = {
    "step": dict(
        zip(
            STEP_FIELDS,
            (
                "The result of its last finished run.",
                "The same as `result`.",
                "`ok`, `error` or `skipped`.",
                "The error, null if it succeeded.",
                "Of a loop: the items that failed.",
            ),
            strict=True,
        )
    ),
    "event": {"name": "`step.done`, `step.failed` or `loop.done`.", "data": "The data of the event."},
    "iter": {"index": "Number of the item, from 0.", "parent": "The iteration around this one."},
}


class Fragment(NamedTuple):
    """The end of a template that is typed: the word at the cursor, after the names of `path` and a dot."""

    mode: Mode
    path: tuple[str, ...]
    word: str


def fragment_before(text: str, start: int, cursor: int) -> Fragment | None:
    """The fragment between the start of a scalar and the cursor; None outside of templates, and in text literals."""
    source = text[max(start, cursor - MAX_LOOKBACK) : cursor]
    opening = max(source.rfind("{{"), source.rfind("{%"))
    if opening < 0 or "}}" in source[opening:] or "%}" in source[opening:]:
        return None
    tail = source[opening + 2 :]
    if index := _INDEX.search(tail[-MAX_PATH_LENGTH:]):
        return Fragment("member", tuple(index[1].split(".")), index[2])
    tail = _STRINGS.sub(lambda match: match[0] if len(match[0]) < 60 else "''", tail)
    if "'" in (rest := _STRINGS.sub("", tail)) or '"' in rest:
        return None
    tail = tail[-MAX_PATH_LENGTH:]
    match = _WORD.search(tail)
    word = match[0] if match else ""
    before = tail[: len(tail) - len(word)]
    if before.endswith("."):
        path = _path_before(before)
        return Fragment("member", path, word) if path else None
    bare = before.rstrip()
    if bare.endswith("|"):
        return Fragment("filter", (), word)
    return Fragment("test" if _TEST.search(before) else "name", (), word)


def _path_before(before: str) -> tuple[str, ...]:
    """The parts of the path that ends with a dot: `steps.a.` or `steps['a'].`."""
    for match in re.finditer(r"(?<![\w.\]'\"])[^\W\d]", before):
        if path := _PATH.match(before, match.start()):
            return tuple(part.strip("'\"") for part in _PART.findall(path[0]))
    return ()


class VisibleNames:
    """The names that a template can see at the end of a path."""

    def __init__(self, path: Sequence[PathPart], names: DocumentNames, kinds: KindSource, *, classic: bool) -> None:
        self.path, self.names, self.kinds = path, names, kinds
        self.keys = [part.key for part in path]
        places = ClassicSiteFinder.places if classic else {**CLASSIC_PLACES, **PLACES}
        self.roots = places[self._place()].roots
        self.step = as_map(path[1].value) if self.keys[:1] == ["workflow"] and len(path) > 1 else Map()
        name = self.step.get("step")
        self.tasks = names.tasks.get(name, []) if isinstance(name, str) else []
        inside = {id(part.node) for part in path}
        self.task = next((task for task in reversed(self.tasks) if id(task.tree) in inside), None)

    def _place(self) -> str:
        """The name of the place in `PLACES`."""
        keys = self.keys
        if keys[:1] == ["workload"]:
            return "workload"
        if keys[:1] == ["executor"]:
            return "output" if keys[2:3] == ["output"] else "input"
        part = keys[2] if keys[:1] == ["workflow"] and len(keys) > 2 else "tool"
        if part in CLASSIC_PLACES and part != "next":
            return str(part)
        if "admit" in keys:
            return "admit"
        if part == "next":
            return "arc"
        if part == "loop" and keys[3:4] in (["in"], ["collection"]):
            return "loop"
        if "rules" in keys:
            rules = self.path[keys.index("rules") + 1 :]
            rule = as_map(rules[0].value) if rules else Map()
            return "skip" if as_map(rule.get("then")).get("do") == "skip" else "rule"
        if keys[-2:] == ["spec", "timeout"]:
            return "timeout"
        return "chain" if part == "sink" else "input"

    @property
    def labels(self) -> list[LooseTask]:
        """The tasks that the task at the cursor can jump to and read."""
        outer = self.task.outer if self.task else ()
        return [task for task in self.tasks if task.outer == outer]

    def completions(self, fragment: Fragment) -> Iterator[Completion]:
        match fragment.mode:
            case "filter":
                filters = {**FILTERS, **(SQL_FILTERS if self._in_sql() else {})}
                yield from _entries(filters, "filter")
            case "test":
                yield from _entries(TESTS, "test")
            case "name":
                yield from self._first_names()
            case "member":
                yield from self._members(fragment.path)

    def _in_sql(self) -> bool:
        kind = self.kinds.get(self.task.kind) if self.task else None
        return kind is not None and any(name.partition(".")[0] in self.keys for name in kind.sql)

    def _first_names(self) -> Iterator[Completion]:
        for root in sorted(self.roots, key=list(NAMES).index):
            yield Completion(root, "name", "", root, NAMES[root])
        own: list[tuple[str, Iterable[str]]] = [("workload", self.names.inputs)]
        if "iter" in self.roots:
            own.insert(0, ("iter", self.names.iteration(self.step, self._outer())))
        if "ctx" in self.roots:
            own.append(("ctx", self.names.ctx))
        if "args" in self.roots:
            own.append(("args", self.names.args))
        taken_names = set(self.roots)
        for space, names in own:
            for name in names:
                if name not in taken_names and name.isidentifier():
                    taken_names.add(name)
                    yield Completion(name, "name", f"{space}.{name}", name, "")
        yield from _entries(FUNCTIONS, "function")

    def _outer(self) -> tuple[LooseTask, ...]:
        return (*self.task.outer, self.task) if self.task else ()

    def _members(self, path: tuple[str, ...]) -> Iterator[Completion]:
        root, *rest = path
        if root not in self.roots and root in self.names.workload:
            root, rest = "workload", [root, *rest]
        match root, rest:
            case "workload", _:
                yield from self._inputs(rest)
            case "ctx", []:
                yield from _fields(dict.fromkeys(self.names.ctx, ""))
            case "vars", []:
                yield from _fields(dict.fromkeys(self.names.variables, ""))
            case "args", []:
                yield from _fields(dict.fromkeys(self.names.args, ""))
            case "iter", []:
                own = dict.fromkeys(self.names.iteration(self.step, self._outer()), "")
                yield from _fields(own | dict(FIELDS["iter"]))
            case "event", []:
                yield from _fields(FIELDS["event"])
            case "keychain", []:
                yield from (Completion(name, "credential", "", name, "") for name in self.names.keychain)
            case "steps", []:
                yield from step_names(self.names)
            case "steps", [_]:
                yield from _fields(FIELDS["step"])
            case "tasks", []:
                yield from task_labels(self.labels)
            case "tasks", [label]:
                yield from self._outcome(next((task for task in self.labels if task.label == label), None))
            case "outcome", []:
                yield from self._outcome(self.task)
            case (("outcome" | "steps" | "tasks"), [*_, "error"]):
                yield from _fields(ERROR_FIELDS)

    def _outcome(self, task: LooseTask | None) -> Iterator[Completion]:
        yield from _fields(OUTCOME_FIELDS)
        kind = self.kinds.get(task.kind) if task else None
        if kind is not None and kind.outcome:
            yield from _fields({kind.outcome: f"Field that only `{kind.name}` has."})

    def _inputs(self, path: Sequence[str]) -> Iterator[Completion]:
        node: Any = self.names.workload
        for part in path:
            node = node.get(part) if isinstance(node, Map) else None
        if not path:
            for name in self.names.inputs:
                yield Completion(name, "field", _default(self.names.workload, name), name, "")
        elif isinstance(node, Map):
            yield from (Completion(name, "field", _default(node, name), name, "") for name in node)

    def meaning(self, fragment: Fragment) -> str:
        """The meaning of the word of a fragment; empty for an unknown word."""
        completions = self.completions(fragment)
        completion = next((entry for entry in completions if entry.label == fragment.word), None)
        if completion is None:
            return ""
        detail = f"{completion.label}{completion.detail}" if completion.kind in ("filter", "test", "function") else ""
        return "\n\n".join(part for part in (detail or completion.detail, completion.doc) if part)


def step_names(names: DocumentNames) -> Iterator[Completion]:
    for name, step in names.steps.items():
        desc = step.get("desc")
        yield Completion(name, "step", "", name, desc if isinstance(desc, str) else "")


def task_labels(tasks: Iterable[LooseTask]) -> Iterator[Completion]:
    yield from (Completion(task.label, "task", task.kind, task.label, "") for task in tasks)


def _default(node: Map, name: str) -> str:
    return f"default: {describe(node[name])}" if name in node else ""


def _fields(fields: Mapping[str, str]) -> Iterator[Completion]:
    yield from (Completion(name, "field", "", name, doc) for name, doc in fields.items())


def _entries(entries: Mapping[str, Entry], kind: CompletionKind) -> Iterator[Completion]:
    for name, entry in entries.items():
        if name.isidentifier():
            yield Completion(name, kind, "" if entry.signature == "()" else entry.signature, name, entry.doc)
