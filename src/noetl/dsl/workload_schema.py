"""`executor.spec.schema.workload`: a JSON Schema (2020-12) for the inputs of a playbook.

Schemas are untrusted. References stay inside the schema and form no cycle, and their expansion is limited, so checking
a payload takes no longer than reading it a few times.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from noetl.dsl.problem import did_you_mean

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAX_PARTS = 10_000
MAX_DEPTH = 200
MAX_BACKTRACKS = 10_000  # of one pattern on one text
UNSUPPORTED = ("$id", "$anchor", "$dynamicRef", "$dynamicAnchor")
COMPOSITE = frozenset(["anyOf", "oneOf", "not"])
OPEN = frozenset(["required", "dependentRequired", "minProperties", "then", "else", "dependentSchemas", *COMPOSITE])
"""Keywords that a payload can satisfy by what it adds to the defaults."""
MASK = "the value"  # in messages instead of a value, which may be a secret

Schema = dict[str, Any]
Path = tuple[str | int, ...]


class InvalidSchema(Exception):
    def __init__(self, message: str, path: Path = ()) -> None:
        super().__init__(message)
        self.message, self.path = message, path


class SchemaViolation(NamedTuple):
    path: Path
    message: str


def check_schema(schema: Schema) -> None:
    """InvalidSchema with the error and its place if the schema is invalid."""
    _Size(schema).check()
    _validator(msgspec.json.encode(schema))


def violations(schema: Schema, workload: dict[str, Any], unknown: set[Path]) -> list[SchemaViolation]:
    """The violations of the schema. Values at the paths in `unknown` are not checked."""
    faults = []
    for error in _validator(msgspec.json.encode(schema)).iter_errors(workload):
        path = tuple(error.instance_path)
        below = any(path[: len(other)] == other for other in unknown)
        around = error.schema_path[-1:] and error.schema_path[-1] in COMPOSITE
        if not below and not (around and any(other[: len(path)] == path for other in unknown)):
            faults.append(SchemaViolation(path, _message(error, schema)))
    return faults


def default_violations(schema: Schema, defaults: dict[str, Any], unknown: set[Path]) -> list[tuple[Path, str | None]]:
    """The defaults that violate the schema whatever a payload adds to them, with a message; None if the schema does not
    allow their key at all. Values at the paths in `unknown` are not checked."""
    faults: list[tuple[Path, str | None]] = []
    for error in _validator(msgspec.json.encode(schema)).iter_errors(defaults):
        path = tuple(error.instance_path)
        if OPEN.intersection(map(str, error.schema_path)) or any(path[: len(other)] == other for other in unknown):
            continue
        names: list[str] = getattr(error.kind, "unexpected", [])
        if names:
            faults += [((*path, name), None) for name in names]
        elif path:
            faults.append((path, error.message))
    return faults


def _message(error: ValidationError, schema: Schema) -> str:
    names: list[str] = getattr(error.kind, "unexpected", [])
    guess = did_you_mean(names[0], schema.get("properties", {})) if names and not error.instance_path else None
    return f"{error.message}: {guess}" if guess else error.message


@lru_cache(maxsize=64)
def _validator(text: bytes) -> Draft202012Validator:
    from jsonschema_rs import Draft202012Validator, FancyRegexOptions, ValidationError

    options = FancyRegexOptions(backtrack_limit=MAX_BACKTRACKS)
    try:
        return Draft202012Validator(
            msgspec.json.decode(text), offline=True, validate_formats=True, mask=MASK, pattern_options=options
        )
    except ValidationError as error:
        raise InvalidSchema(error.message, tuple(error.instance_path)) from None


class _Size:
    """Counts the parts of a schema as often as references repeat them."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.sizes: dict[int, int] = {}
        self.open: set[int] = set()

    def check(self) -> None:
        if str(self.root.get("$schema", DIALECT)).rstrip("#") != DIALECT:
            raise InvalidSchema(f"`$schema` must be {DIALECT}", ("$schema",))
        if self._count(self.root, (), 0) > MAX_PARTS:
            raise InvalidSchema(f"it has more than {MAX_PARTS:,} parts (references count as what they expand to)")

    def _count(self, part: Any, path: Path, depth: int) -> int:
        if not isinstance(part, dict | list):
            return 1
        if id(part) in self.sizes:
            return self.sizes[id(part)]
        if id(part) in self.open:
            raise InvalidSchema("a reference leads back to itself", path)
        if depth > MAX_DEPTH:
            raise InvalidSchema("the schema is nested too deeply", path)
        self.open.add(id(part))
        size = 1 + sum(self._count(inner, (*path, key), depth + 1) for key, inner in self._inner(part, path))
        self.open.discard(id(part))
        self.sizes[id(part)] = size = min(size, 2 * MAX_PARTS)
        return size

    def _inner(self, part: dict[str, Any] | list[Any], path: Path) -> Iterator[tuple[str | int, Any]]:
        if isinstance(part, list):
            yield from enumerate(part)
            return
        for key, inner in part.items():
            if key == "$ref" and isinstance(inner, str):
                yield key, self._target(inner, (*path, key))
            elif key in UNSUPPORTED and isinstance(inner, str):
                raise InvalidSchema(f"{key!r} is not available here", (*path, key))
            else:
                yield key, inner

    def _target(self, reference: str, path: Path) -> Any:
        if reference != "#" and not reference.startswith("#/"):
            raise InvalidSchema(f"the reference {reference[:60]!r} must begin with `#/`", path)
        target: Any = self.root
        for name in reference.split("/")[1:]:
            name = name.replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and name.isdecimal() and int(name) < len(target):
                target = target[int(name)]
            elif isinstance(target, dict) and name in target:
                target = target[name]
            else:
                raise InvalidSchema(f"the reference {reference[:60]!r} leads nowhere", path)
        return target
