"""Whether a tool kind keeps the contract of `noetl.tools.base`.

Each check yields what is wrong in words. Those about the description of the kind need nothing; those about calls try
the examples that the author of the tool gives: as they are, and with values in them that nobody would write.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from noetl.model.inputs import Row, rows, schema
from noetl.model.kind import Kind
from noetl.model.outcome import Outcome
from noetl.testing.example import Example, odd_variants
from noetl.testing.leftovers import left_since, traces
from noetl.testing.tool import Tool, hiding, tool_of
from noetl.testing.trial import CALL_SECONDS, Made, cancelled, closed_twice, made, tasks_left

ERROR_KINDS = frozenset(
    [
        *("http_status", "connect", "timeout", "cancelled", "lost", "poison", "template", "input", "auth", "not_found"),
        *("too_large", "sql", "python", "exit_code", "child_failed", "ctx_conflict", "policy", "loop_input", "limit"),
        "internal",
    ]
)
"""The kinds of the language. A tool may have others, with its own name and a dot in front."""
EVERY_TASK = frozenset(["kind", "spec", "args", "name"])
"""Keys of every task, which can't be inputs."""
HEAVY = frozenset(
    [
        *("asyncio", "concurrent", "ctypes", "email", "http", "logging", "multiprocessing", "select", "socket"),
        *("sqlite3", "ssl", "subprocess", "xml"),
    ]
)
"""Parts of the standard library that take long to import."""
OK = "an ok outcome"
SHOWN = 200
"""How much is shown of a text that may be long."""

Examples = Sequence[Example]
Check = Callable[[Tool, Examples], Iterator[str]]


def check_kind(tool: Any, examples: Examples = ()) -> list[str]:
    """All that is wrong with a tool kind: its module or its name. Nothing is wrong if the list is empty."""
    subject = tool_of(tool)
    return [f"{check.__name__}: {fault}" for check in CHECKS for fault in check(subject, examples)]


# -- what the kind says of itself -------------------------------------------------------------------------------------


def description(tool: Tool, examples: Examples) -> Iterator[str]:
    """The kind has a name, a summary and a model of inputs, and what it says about its inputs names inputs."""
    kind = tool.kind
    if not re.fullmatch(r"[a-z][a-z0-9_]*", kind.name):
        yield f"the name {kind.name!r} is not made of small letters, digits and underscores"
    if not kind.summary or "\n" in kind.summary or kind.summary.endswith("."):
        yield "the summary is not one line without a full stop"
    if kind.timeout is not None and kind.timeout <= 0:
        yield f"the time limit is {kind.timeout}"
    if not kind.inputs.__struct_config__.forbid_unknown_fields:
        yield "the inputs take keys that they do not know: set forbid_unknown_fields=True"
    names = {row.name for row in _rows(kind)}
    for name in sorted(names & (EVERY_TASK - _named_by(kind))):
        yield f"an input can't be called {name!r}: every task has that key"
    mentioned = {*kind.sql, *kind.shell, *kind.verbatim, *(name for group in kind.one_of for name in group)}
    for name in sorted(path for path in mentioned if names and path.partition(".")[0] not in names):
        yield f"{name!r} is named, but there is no such input"


def _named_by(kind: Kind) -> frozenset[str]:
    """A workbook's task is found by its name."""
    return frozenset(["name"]) if kind.name == "workbook" else frozenset()


def functions(tool: Tool, examples: Examples) -> Iterator[str]:
    """`run` and `close` can be called as the worker calls them."""
    for function, arguments in ((tool.run, ("inputs", "context")), (tool.close, ())):
        if function is None:
            continue
        name = getattr(function, "__name__", str(function))
        if not inspect.iscoroutinefunction(function):
            yield f"`{name}` is not an `async def`"
        try:
            inspect.signature(function).bind(*arguments)
        except TypeError as error:
            yield f"`{name}` takes other arguments than ({', '.join(arguments)}): {error}"


def documentation(tool: Tool, examples: Examples) -> Iterator[str]:
    """Every input has one line of description."""
    for row in _rows(tool.kind):
        if not row.description or "\n" in row.description:
            yield f"input {row.name!r} has no description of one line"


def json_schema(tool: Tool, examples: Examples) -> Iterator[str]:
    """Editors can be told what the inputs are."""
    try:
        msgspec.json.encode(schema(tool.kind))
    except Exception as error:  # whatever a model does to the generator, it is the model's author who must know
        yield f"no JSON Schema can be made of the inputs: {type(error).__name__}: {error}"


def _rows(kind: Kind) -> list[Row]:
    """The inputs; none of a model that can't be read, which has no schema either."""
    try:
        return rows(kind)
    except TypeError:
        return []


def light_import(tool: Tool, examples: Examples) -> Iterator[str]:
    """`noetl validate` imports the module: drivers and the slow parts of the standard library come with a call."""
    code = (
        "import sys, importlib, msgspec, noetl.tools.base, noetl.tools.fields; before = set(sys.modules);"
        f"importlib.import_module({tool.home!r}); print(*sorted(set(sys.modules) - before))"
    )
    command = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CALL_SECONDS, check=False)
    if done.returncode:
        yield f"it can't be imported: {done.stderr.strip().splitlines()[-1]}"
        return
    own = tool.home.partition(".")[0]
    tops = {name.partition(".")[0] for name in done.stdout.split()}
    heavy = {top for top in tops if top in HEAVY or top not in {own, "noetl", "msgspec", *sys.stdlib_module_names}}
    for top in sorted(heavy):
        yield f"importing it imports {top}: import that inside the function that needs it"


# -- calls ------------------------------------------------------------------------------------------------------------


def expected(tool: Tool, examples: Examples) -> Iterator[str]:
    """Each example ends as its author says."""
    for number, outcome in _outcomes(tool, examples):
        wanted = examples[number].error or OK
        if isinstance(outcome, Exception):
            yield f"example {number} lets {type(outcome).__name__} out: {str(outcome)[:SHOWN]}"
        elif isinstance(outcome, Outcome) and _ending(outcome) != wanted:
            message = f": {outcome.error.message}" if outcome.error is not None else ""
            yield f"example {number} ends with {_ending(outcome)}, not with {wanted}{message[:SHOWN]}"


def outcomes(tool: Tool, examples: Examples) -> Iterator[str]:
    """An outcome has a result or an error, made of what can be stored."""
    for number, outcome in _outcomes(tool, examples):
        if not isinstance(outcome, Exception):
            yield from (f"example {number}: {fault}" for fault in _misshapen(tool.kind, outcome))


def odd_inputs(tool: Tool, examples: Examples) -> Iterator[str]:
    """What nobody would write gives an outcome, and never an exception; a key that is unknown, one of kind `input`."""
    calls = [
        (f"example {n}{words}", example) for n, example in _short(examples) for words, example in odd_variants(example)
    ]
    for what, outcome in made(tool, calls):
        if isinstance(outcome, Exception):
            yield f"{what}: {type(outcome).__name__} came out: {str(outcome)[:SHOWN]}"
            continue
        if "unknown key" in what and _ending(outcome) != "input":
            yield f"{what}: ends with {_ending(outcome)}, not with input"
        yield from (f"{what}: {fault}" for fault in _misshapen(tool.kind, outcome))


def secrecy(tool: Tool, examples: Examples) -> Iterator[str]:
    """No error shows a secret, and no line of the log half of one: what is cut is redacted first."""
    for number, example in _short(examples):
        for words, variant in [("", example), *odd_variants(example)] if example.secrets else ():
            lines: list[str] = []
            context = {**variant.context, "log": lambda stream, line, lines=lines: lines.append(line)}
            ((_, outcome),) = made(tool, [("", msgspec.structs.replace(variant, context=context))])
            error = "" if isinstance(outcome, Outcome) and outcome.ok else str(outcome)
            visible = error + str(hiding(example.secrets)(lines))
            if any(half in visible for secret in example.secrets for half in _halves(secret)):
                yield f"example {number}{words}: shows a secret of its credential"


def cancelling(tool: Tool, examples: Examples) -> Iterator[str]:
    """A call that is cancelled ends, with CancelledError."""
    for number, example in enumerate(examples):
        if example.lasts and (fault := cancelled(tool, example)) is not None:
            yield f"example {number} {fault}"


def leftovers(tool: Tool, examples: Examples) -> Iterator[str]:
    """Calls leave no task, and after `close` no thread, process or open file."""
    for number, example in enumerate(examples):
        tasks_left(tool, example)  # what is loaded once and for all is not left behind
        before = traces()
        tasks = tasks_left(tool, example)
        yield from (f"example {number}: a task is left: {task}" for task in tasks)
        yield from (f"example {number}: {left}" for left in left_since(before))


def closing(tool: Tool, examples: Examples) -> Iterator[str]:
    """`close` can be called twice, and where nothing was ever opened."""
    if tool.close is None:
        return
    for what, calls in (
        ("before any call", []),
        *((f"after example {n}", [example]) for n, example in _short(examples)),
    ):
        try:
            closed_twice(tool, calls)
        except Exception as error:  # whatever it raises is what is wrong with it
            yield f"`close`, called twice {what}: {type(error).__name__}: {error}"


CHECKS: tuple[Check, ...] = (
    description,
    functions,
    documentation,
    json_schema,
    light_import,
    expected,
    outcomes,
    odd_inputs,
    secrecy,
    cancelling,
    leftovers,
    closing,
)


# -- what is looked at ------------------------------------------------------------------------------------------------


def _outcomes(tool: Tool, examples: Examples) -> Iterator[tuple[int, Made]]:
    """What the examples come to, by their numbers."""
    short = list(_short(examples))
    for (number, _), (_, outcome) in zip(short, made(tool, [("", example) for _, example in short]), strict=True):
        yield number, outcome


def _ending(outcome: Outcome) -> str:
    return OK if outcome.error is None else outcome.error.kind


def _short(examples: Examples) -> Iterator[tuple[int, Example]]:
    """The examples that end by themselves."""
    return ((number, example) for number, example in enumerate(examples) if not example.lasts)


def _misshapen(kind: Kind, outcome: object) -> Iterator[str]:
    if not isinstance(outcome, Outcome):
        yield f"it returns {type(outcome).__name__}, not an Outcome"
        return
    if outcome.ok == (outcome.error is not None):
        yield f"its status is {outcome.status!r}, and it has {'an' if outcome.error else 'no'} error"
    if outcome.error is not None:
        name = outcome.error.kind
        if name == "internal" or (name not in ERROR_KINDS and not name.startswith(f"{kind.name}.")):
            yield f"{name!r} is not an error kind: use one of the list, or one that starts with '{kind.name}.'"
        if not outcome.error.message.strip():
            yield "its error has no message"
        if not _is_plain(outcome.error.details):
            yield "`error.details` hold values that JSON does not have"
    if not _is_storable(outcome.result):
        yield f"its result can't be stored: {str(outcome.result)[:SHOWN]}"
    if not _is_plain(outcome.extra):
        yield "its own field holds values that JSON does not have"
    for name in outcome.extra.keys() - {kind.outcome}:
        yield f"it adds {name!r} to the outcome, and its KIND has outcome={kind.outcome!r}"


def _is_storable(value: Any) -> bool:
    """Plain data, with bytes in the place of the whole or of a value of a map."""
    if isinstance(value, bytes | msgspec.Raw):
        return True
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_storable(item) for key, item in value.items())
    return _is_plain(value)


def _is_plain(value: Any) -> bool:
    """Whether JSON holds exactly this."""
    try:
        return bool(msgspec.json.decode(msgspec.json.encode(value)) == value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return False


def _halves(secret: str) -> tuple[str, str]:
    return secret[: len(secret) // 2], secret[len(secret) // 2 :]
