"""Whether a tool kind keeps the contract of `noetl.tools.base`, as a function and as a class of tests for pytest.

Each check yields messages. Checks of the description need no example. Checks of calls try the examples of
the author, as they are and with odd values in them.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from noetl.model.inputs import InputRow, rows, schema
from noetl.model.kind import Kind
from noetl.model.outcome import Outcome
from noetl.testing.example import CALL_SECONDS, Example, call_all, cancel_call, close_twice, left_behind, odd_variants
from noetl.testing.tool import Tool, hiding, tool_of

# The kinds of the language. A tool may have others, with its own name and a dot in front.
ERROR_KINDS = frozenset(
    [
        *("http_status", "connect", "timeout", "cancelled", "lost", "poison", "template", "input", "auth", "not_found"),
        *("too_large", "sql", "python", "exit_code", "child_failed", "ctx_conflict", "policy", "loop_input", "limit"),
        *("internal", "items_failed"),
    ]
)
TASK_KEYS = frozenset(["kind", "spec", "args", "name"])  # keys of every task, which cannot be inputs
HEAVY = frozenset(  # parts of the standard library that take long to import
    [
        *("asyncio", "concurrent", "ctypes", "email", "http", "logging", "multiprocessing", "select", "socket"),
        *("sqlite3", "ssl", "subprocess", "xml"),
    ]
)
OK = "an ok outcome"
MAX_CHARACTERS = 200

Examples = Sequence[Example]
Check = Callable[[Tool, Examples], Iterator[str]]


def check_kind(tool: Any, examples: Examples = ()) -> list[str]:
    """Every fault of a tool kind, which is its module or its name; empty if it has none."""
    subject = tool_of(tool)
    return [f"{check.__name__}: {fault}" for check in CHECKS for fault in check(subject, examples)]


def description(tool: Tool, examples: Examples) -> Iterator[str]:
    kind = tool.kind
    if not re.fullmatch(r"[a-z][a-z0-9_]*", kind.name):
        yield f"the name {kind.name!r} must consist of lower-case letters, digits and underscores"
    if not kind.summary or "\n" in kind.summary or kind.summary.endswith("."):
        yield "the summary must be one line without a full stop"
    if kind.timeout is not None and kind.timeout <= 0:
        yield f"the timeout must be positive (got {kind.timeout})"
    if not kind.inputs.__struct_config__.forbid_unknown_fields:
        yield "the inputs accept unknown keys: set forbid_unknown_fields=True"
    names = {row.name for row in _rows(kind)}
    reserved = TASK_KEYS - {"name"} if kind.name == "workbook" else TASK_KEYS  # its task is found by its name
    for name in sorted(names & reserved):
        yield f"an input cannot be called {name!r}: every task has that key"
    mentioned = {*kind.sql, *kind.shell, *kind.verbatim, *(name for group in kind.one_of for name in group)}
    mentioned |= {name for operation in kind.operations.values() for name in operation.takes}
    for name in sorted(path for path in mentioned if names and path.partition(".")[0] not in names):
        yield f"the kind refers to {name!r}, but has no such input"


def functions(tool: Tool, examples: Examples) -> Iterator[str]:
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
    for row in _rows(tool.kind):
        if not row.description or "\n" in row.description:
            yield f"input {row.name!r} has no description of one line"


def json_schema(tool: Tool, examples: Examples) -> Iterator[str]:
    try:
        msgspec.json.encode(schema(tool.kind))
    except Exception as error:  # any error of the generator is a fault of the model
        yield f"the inputs have no JSON Schema: {type(error).__name__}: {error}"


def _rows(kind: Kind) -> list[InputRow]:
    """The inputs; none of a model without a schema."""
    try:
        return rows(kind)
    except TypeError:
        return []


def light_import(tool: Tool, examples: Examples) -> Iterator[str]:
    """`noetl validate` imports the module: drivers and slow parts of the standard library are imported by calls."""
    code = (
        "import sys, importlib, msgspec, noetl.tools.base, noetl.tools.fields; before = set(sys.modules);"
        f"importlib.import_module({tool.home!r}); print(*sorted(set(sys.modules) - before))"
    )
    command = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=CALL_SECONDS, check=False)
    if process.returncode:
        yield f"it cannot be imported: {process.stderr.strip().splitlines()[-1]}"
        return
    own = tool.home.partition(".")[0]
    tops = {name.partition(".")[0] for name in process.stdout.split()}
    heavy = {top for top in tops if top in HEAVY or top not in {own, "noetl", "msgspec", *sys.stdlib_module_names}}
    for top in sorted(heavy):
        yield f"importing it imports {top}: import that inside the function that needs it"


def expected(tool: Tool, examples: Examples) -> Iterator[str]:
    for number, outcome in _outcomes(tool, examples):
        expected_end = examples[number].error or OK
        if isinstance(outcome, Exception):
            yield f"example {number} raises {type(outcome).__name__}: {str(outcome)[:MAX_CHARACTERS]}"
        elif isinstance(outcome, Outcome) and _ending(outcome) != expected_end:
            message = f": {outcome.error.message}" if outcome.error is not None else ""
            yield f"example {number} ends with {_ending(outcome)}, not with {expected_end}{message[:MAX_CHARACTERS]}"


def outcomes(tool: Tool, examples: Examples) -> Iterator[str]:
    """An outcome has a result or an error, which can be stored."""
    for number, outcome in _outcomes(tool, examples):
        if not isinstance(outcome, Exception):
            yield from (f"example {number}: {fault}" for fault in _misshapen(tool.kind, outcome))


def odd_inputs(tool: Tool, examples: Examples) -> Iterator[str]:
    """Odd inputs give an outcome, never an exception; an unknown key gives one of kind `input`."""
    calls = {
        f"example {number}{description}": variant
        for number, example in _short(examples)
        for description, variant in odd_variants(example)
    }
    for call, outcome in zip(calls, asyncio.run(call_all(tool, list(calls.values()))), strict=True):
        if isinstance(outcome, Exception):
            yield f"{call}: raises {type(outcome).__name__}: {str(outcome)[:MAX_CHARACTERS]}"
            continue
        if "unknown key" in call and _ending(outcome) != "input":
            yield f"{call}: ends with {_ending(outcome)}, not with input"
        yield from (f"{call}: {fault}" for fault in _misshapen(tool.kind, outcome))


def secrecy(tool: Tool, examples: Examples) -> Iterator[str]:
    """No error shows a secret, and no line of the log half of one: redact a text before you cut it."""
    for number, example in _short(examples):
        for description, variant in [("", example), *odd_variants(example)] if example.secrets else ():
            lines: list[str] = []
            context = {**variant.context, "log": lambda stream, line, lines=lines: lines.append(line)}
            (outcome,) = asyncio.run(call_all(tool, [msgspec.structs.replace(variant, context=context)]))
            error = "" if isinstance(outcome, Outcome) and outcome.ok else str(outcome)
            visible = error + str(hiding(example.secrets)(lines))
            halves = [(secret[: len(secret) // 2], secret[len(secret) // 2 :]) for secret in example.secrets]
            if any(half in visible for pair in halves for half in pair):
                yield f"example {number}{description}: shows a secret of its credential"


def cancelling(tool: Tool, examples: Examples) -> Iterator[str]:
    for number, example in enumerate(examples):
        if example.lasts and (fault := asyncio.run(cancel_call(tool, example))) is not None:
            yield f"example {number} {fault}"


def leftovers(tool: Tool, examples: Examples) -> Iterator[str]:
    """Calls leave no task, and after `close` no thread, process or open file."""
    for number, example in enumerate(examples):
        yield from (f"example {number}: {leftover}" for leftover in left_behind(tool, example))


def closing(tool: Tool, examples: Examples) -> Iterator[str]:
    if tool.close is None:
        return
    calls = {f"after example {number}": [example] for number, example in _short(examples)}
    for moment, before in {"before any call": [], **calls}.items():
        try:
            asyncio.run(close_twice(tool, before))
        except Exception as error:  # any error is a fault
            yield f"`close`, called twice {moment}: {type(error).__name__}: {error}"


CHECKS: tuple[Check, ...] = (description, functions, documentation, json_schema, light_import)
CHECKS += (expected, outcomes, odd_inputs, secrecy, cancelling, leftovers, closing)


def _test(check: Check) -> Callable[[ToolSuite], None]:
    def test(suite: ToolSuite) -> None:
        faults = list(check(tool_of(suite.tool), suite.examples))
        assert not faults, "\n".join(faults)

    return test


class ToolSuite:
    """Derive a class whose name begins with `Test`, and give it the tool and some examples.

    At least one example should succeed, one should fail, and one should last, so that it can be cancelled.
    """

    tool: ClassVar[Any]  # the module of the kind, or the name of an installed one
    examples: ClassVar[Examples] = ()

    test_kind_describes_itself = _test(description)
    test_worker_can_call_it = _test(functions)
    test_every_input_is_documented = _test(documentation)
    test_json_schema_of_the_inputs_can_be_made = _test(json_schema)
    test_import_is_light = _test(light_import)
    test_examples_end_as_expected = _test(expected)
    test_outcomes_can_be_stored = _test(outcomes)
    test_odd_inputs_give_an_outcome = _test(odd_inputs)
    test_errors_show_no_secret = _test(secrecy)
    test_call_can_be_cancelled = _test(cancelling)
    test_nothing_is_left_behind = _test(leftovers)
    test_close_can_be_called_at_any_time = _test(closing)


def _outcomes(tool: Tool, examples: Examples) -> Iterator[tuple[int, Outcome | Exception]]:
    short = dict(_short(examples))
    return zip(short, asyncio.run(call_all(tool, list(short.values()))), strict=True)


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
            yield "`error.details` contains values that JSON does not have"
    if not _is_storable(outcome.result):
        yield f"its result cannot be stored: {str(outcome.result)[:MAX_CHARACTERS]}"
    if not _is_plain(outcome.extra):
        yield "its extra field contains values that JSON does not have"
    for name in outcome.extra.keys() - {kind.outcome}:
        yield f"it adds {name!r} to the outcome, and its KIND has outcome={kind.outcome!r}"


def _is_storable(value: Any) -> bool:
    """Plain data; bytes are allowed as the whole value or as a value of a map."""
    if isinstance(value, bytes | msgspec.Raw):
        return True
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_storable(item) for key, item in value.items())
    return _is_plain(value)


def _is_plain(value: Any) -> bool:
    try:
        return bool(msgspec.json.decode(msgspec.json.encode(value)) == value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return False
