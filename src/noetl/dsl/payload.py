"""The payload of a request against the playbook that it starts: pure functions, used wherever a run can be started.

`PlaybookInputs` describes the inputs of a compiled text: the bare names that only a request can provide, and the inputs
that templates read. `check_payload` compares it with a payload.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from msgspec import UNSET

from noetl.dsl.problem import Problem, did_you_mean
from noetl.dsl.tree import is_template
from noetl.errors import PlaybookInvalid, UsageError
from noetl.expression import Assumptions, NameState
from noetl.model.playbook import Playbook

UNKNOWN_NAME_CODE = "NTL502"
SCHEDULE_KEY = "schedule"  # the key of a payload that describes the firing of a schedule; a playbook may ignore it
MAX_WARNINGS = 10
MAX_KEY_CHARACTERS = 60

Path = tuple[str | int, ...]
Json = dict[str, Any]


class InputName(NamedTuple):
    """A bare name that nothing in the playbook provides, and the place that reads it first."""

    name: str
    line: int
    column: int
    place: str
    required: bool
    """Whether its absence is certainly an error: in a condition a missing name is false, and a branch may not be
    evaluated."""
    default: Path = ()
    """The key of `workload` whose default reads it; a payload with that key replaces the default."""
    advice: str | None = None
    """The similar name that the author probably meant."""
    assumptions: Assumptions = frozenset()
    """The states of other names of the request in which the template needs this one."""


class PlaybookInputs(NamedTuple):
    names: tuple[InputName, ...] = ()
    reads: frozenset[Path] = frozenset()
    """Paths in the workload that templates outside of steps read; the empty path is the whole of it."""
    step_reads: frozenset[tuple[str, Path]] = frozenset()
    """Paths that templates of a step read, except its `loop.in`, each with the step."""
    loop_reads: frozenset[tuple[str, Path]] = frozenset()
    """Paths that `loop.in` reads, each with its step."""

    @property
    def all_reads(self) -> frozenset[Path]:
        return self.reads | {path for _, path in self.step_reads | self.loop_reads}


class KeptParts(NamedTuple):
    """The steps and loops that a fork does not evaluate again."""

    steps: frozenset[str]  # which do not run again
    loops: frozenset[str]  # steps that continue, with the items they have


def properties_of(schema: Any) -> frozenset[str]:
    """The keys that a schema names, valid or not."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return frozenset(properties) if isinstance(properties, dict) else frozenset()


def required_by(schema: Any) -> frozenset[str]:
    required = schema.get("required") if isinstance(schema, dict) else None
    return frozenset(key for key in required if isinstance(key, str)) if isinstance(required, list) else frozenset()


UNKNOWN_INPUTS = PlaybookInputs(reads=frozenset([()]))
"""Of a playbook without a text: it may read everything."""


def check_payload(
    playbook: Playbook, inputs: PlaybookInputs, file: str, payload: Json, ctx: Json, strict_keys: Collection[str] = ()
) -> list[str]:
    """Warnings about the inputs of a request.

    UsageError for inputs that violate the schema of the workload. Without a schema, for one of `strict_keys` (`a.b`)
    that the playbook does not know, or whose value has another type than its default.
    PlaybookInvalid if a template needs a name that nothing provides.
    """
    schema = playbook.executor.workload_schema
    if schema is UNSET:
        warnings = _checked_by_defaults(_Workload(playbook.workload, inputs.all_reads), payload, strict_keys)
    else:
        warnings = _checked_by_schema(schema, playbook.workload, inputs.all_reads, payload)
    values = payload | ctx
    missing = [name for name in inputs.names if _is_needed(name, values) and not _is_provided(name, payload, ctx)]
    if problems := [_problem(name, file, payload) for name in missing if name.required]:
        raise PlaybookInvalid(problems)
    warnings += [
        f"{file}:{name.line}:{name.column}: nothing provides {name.name!r}: "
        "it counts as false in a condition, and is an error where its value is needed"
        for name in missing
    ]
    if len(warnings) > MAX_WARNINGS:
        warnings[MAX_WARNINGS:] = [f"and {len(warnings) - MAX_WARNINGS} more warnings"]
    return warnings


def check_kept_parts(
    inputs: PlaybookInputs, kept_parts: KeptParts, payload: Json, strict_keys: Collection[str] = ()
) -> list[str]:
    """Warnings about changed inputs that nothing reads again; UsageError for one of `strict_keys`."""
    strict: list[Path] = [tuple(key.split(".")) for key in strict_keys]
    for path in strict:
        if message := _without_effect(inputs, kept_parts, path):
            raise UsageError(message)
    paths = [path for path in _leaves(payload, ()) if not any(path[: len(key)] == key for key in strict)]
    return [message for path in paths if (message := _without_effect(inputs, kept_parts, path))][:MAX_WARNINGS]


def _without_effect(inputs: PlaybookInputs, kept_parts: KeptParts, path: Path) -> str | None:
    if any(_overlap(read, path) for read in inputs.reads):
        return None
    steps = {step for step, read in inputs.step_reads if _overlap(read, path)}
    loops = {step for step, read in inputs.loop_reads if _overlap(read, path)}
    if not steps | loops or steps - kept_parts.steps or loops - kept_parts.steps - kept_parts.loops:
        return None
    message = f"{dotted(path)!r} has no effect: only "
    if loops & kept_parts.loops:
        step = min(loops & kept_parts.loops)
        message += f"`loop.in` of {step!r} reads it, and its items are kept"
        return f"{message}; run the whole loop again with `--from {step}`, without `--failed-items`"
    step = min(steps | loops)
    return f"{message}step {step!r} reads it, which does not run again; use `--from {step}`, or start a new run"


def _leaves(value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif path:
        yield path


def _overlap(read: Path, path: Path) -> bool:
    """Whether the paths are equal, or one of them is inside the other."""
    return read[: len(path)] == path[: len(read)]


def check_args(playbook: Playbook, inputs: PlaybookInputs, file: str, args: Json) -> list[str]:
    """Warnings about the args of a child, as far as they are known before it runs: a template may return any value."""
    try:
        return check_payload(playbook, inputs, file, _without_templates(args), {})
    except PlaybookInvalid as error:
        return [f"{problem.file}:{problem.line}:{problem.column}: {problem.message}" for problem in error.problems]
    except UsageError as error:
        return [str(error)]


def _without_templates(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_templates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_templates(item) for item in value]
    return UNSET if is_template(value) else value


def _checked_by_defaults(workload: _Workload, payload: Json, strict_keys: Collection[str]) -> list[str]:
    strict: list[Path] = [tuple(key.split(".")) for key in strict_keys]
    for path in strict:
        if not workload.knows(path):
            raise UsageError(workload.unknown(path))
    warnings = []
    for path, message in workload.oddities(payload):
        if any(path[: len(key)] == key[: len(path)] for key in strict):
            raise UsageError(message)
        warnings.append(message)
    return warnings


def _checked_by_schema(schema: Json, defaults: Json, reads: Collection[Path], payload: Json) -> list[str]:
    """The schema decides alone; a key that it permits without naming it, and that nothing reads, is a warning."""
    from noetl.dsl.workload_schema import violations  # a large library

    properties = properties_of(schema)
    inputs = {key: value for key, value in payload.items() if key != SCHEDULE_KEY or key in properties}
    unknown: set[Path] = set()
    faults = violations(schema, _merged(defaults, inputs, (), unknown), unknown)
    if faults:
        messages = [f"{dotted(path)}: {message}" if path else message for path, message in faults[:MAX_WARNINGS]]
        more = f"; and {len(faults) - MAX_WARNINGS} more" if len(faults) > MAX_WARNINGS else ""
        raise UsageError(f"the inputs violate the schema of the workload: {'; '.join(messages)}{more}")
    workload = _Workload(defaults | dict.fromkeys(properties), reads)
    return [workload.unknown((key,)) for key in inputs if not workload.knows((key,))]


def _merged(default: Any, value: Any, path: Path, unknown: set[Path]) -> Any:
    """The value laid over its default. `unknown` gets the paths of values that are not known yet: templates of
    defaults, and references to stored values."""
    if isinstance(value, dict):
        below = default if isinstance(default, dict) else {}
        merged = {key: _merged(below.get(key), item, (*path, key), unknown) for key, item in value.items()}
        return merged | {key: ready(item, (*path, key), unknown) for key, item in below.items() if key not in value}
    if isinstance(value, list):
        return [_merged(None, item, (*path, place), unknown) for place, item in enumerate(value)]
    if value is None or type_name(value):
        return value
    unknown.add(path)
    return None


def ready(default: Any, path: Path, unknown: set[Path]) -> Any:
    """A default as plain data. `unknown` gets the paths of its templates."""
    if isinstance(default, dict):
        return {key: ready(item, (*path, key), unknown) for key, item in default.items()}
    if isinstance(default, list):
        return [ready(item, (*path, place), unknown) for place, item in enumerate(default)]
    if is_template(default):
        unknown.add(path)
    return default


def _is_needed(name: InputName, values: Json) -> bool:
    return all(_has_state(other, state, values) for other, state in name.assumptions)


def _has_state(name: str, state: NameState, values: Json) -> bool:
    match state:
        case "present":
            return name in values
        case "missing":
            return name not in values
        case "true" | "false":
            value = values.get(name)  # UNSET for a template, whose value is not known yet
            return value is not UNSET and bool(value) is (state == "true")


def _is_provided(name: InputName, payload: Json, ctx: Json) -> bool:
    if not name.default:
        return name.name in payload or name.name in ctx
    if name.name in payload:
        return True
    value: Any = payload
    for key in name.default:
        if not isinstance(value, dict):
            return True
        if key not in value:
            return False
        value = value[key]
    return True


def _problem(name: InputName, file: str, payload: Json) -> Problem:
    message = f"nothing provides {name.name!r}, which is read {name.place}"
    guess = did_you_mean(name.name, payload)
    hint = f"{guess.rstrip('?')} of the payload?" if guess else name.advice
    ways = f"pass it with `--set {name.name}=VALUE`, in the payload or in `args` of a child"
    hint = hint or f"{ways}, or give it a default in `workload`"
    end = name.column + len(name.name)
    return Problem(
        file, name.line, name.column, UNKNOWN_NAME_CODE, "error", message, hint, end_line=name.line, end_column=end
    )


class _Workload:
    def __init__(self, defaults: Json, reads: Collection[Path]) -> None:
        self.defaults, self.reads = defaults, reads

    def knows(self, path: Path) -> bool:
        """Whether the workload declares a path, or a template reads it, a part of it or a value that contains it."""
        return self._declares(path) or any(_overlap(read, path) for read in self.reads)

    def _declares(self, path: Path) -> bool:
        value: Any = self.defaults
        for depth, key in enumerate(path):
            if not isinstance(value, dict) or (depth and not value):  # `{}`, null or a template may have any content
                return True
            if key not in value:
                return False
            value = value[key]
        return True

    def unknown(self, path: Path) -> str:
        outer = path[:-1]
        if outer[:1] == ("workload",) and self.knows(path[1:]):
            return f"workload has no {dotted(path)!r}: did you mean {dotted(path[1:])!r}?"
        siblings = {str(read[len(outer)]) for read in self.reads if read[:-1][: len(outer)] == outer}
        value: Any = self.defaults
        for key in outer:
            value = value.get(key) if isinstance(value, dict) else None
        siblings |= set(value) if isinstance(value, dict) else set()
        guess = did_you_mean(dotted(path), (dotted((*outer, name)) for name in siblings))
        hint = guess or f"declare it in `workload`, or read it as `workload.{dotted(path)}`"
        return f"workload has no {dotted(path)!r}: {hint}"

    def oddities(self, payload: Json) -> Iterator[tuple[Path, str]]:
        yield from self._compare(self.defaults, payload, ())

    def _compare(self, defaults: Json, payload: Json, path: Path) -> Iterator[tuple[Path, str]]:
        for key, value in payload.items():
            inner = (*path, key)
            if key not in defaults:
                if not self.knows(inner) and inner != (SCHEDULE_KEY,):
                    yield inner, self.unknown(inner)
                continue
            default = defaults[key]
            expected, actual = type_name(default), type_name(value)
            if not expected or not actual or is_template(default):
                continue
            if expected != actual:
                message = f"{dotted(inner)!r} must be {expected} like its default in `workload`, but is {actual}"
                yield inner, f"{message}; write it as {EXAMPLES[expected]}"
            elif isinstance(value, dict) and default:
                yield from self._compare(default, value, inner)


def dotted(path: Path) -> str:
    return ".".join(map(str, path))[:MAX_KEY_CHARACTERS]


EXAMPLES = {
    "a list": "[a, b]",
    "a map": "{a: 1}",
    "a number": "5",
    "a boolean": "true or false",
    "text": '"5", or pass it with --set-string',
}


def type_name(value: Any) -> str:
    """Empty for null, and for a reference to a stored value."""
    match value:
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "a map"
    return ""
