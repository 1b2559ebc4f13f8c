"""The inputs of a playbook as fields of a form: one for each leaf of `workload`, and of the schema it declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from noetl.dsl.payload import properties_of, required_by
from noetl.dsl.reader import MAX_DEPTH, read
from noetl.dsl.tree import Map, Text, is_template, key_span, plain

MAX_FIELDS = 1_000
MAX_HELP = 2_000
MAX_INDENT = 200  # columns before a key that begins its line

FieldType: TypeAlias = Literal["string", "number", "integer", "boolean", "array", "object", "any"]
TYPES: tuple[FieldType, ...] = ("string", "number", "integer", "boolean", "array", "object")


class FormField(msgspec.Struct, frozen=True):
    """An input of a playbook. `path` has dots between its keys. `template`: the default is computed when a run starts.
    `help` is the description in the schema, or the comment above the key. `enum` has the allowed values, null for
    any."""

    path: str
    type: FieldType
    default: Any
    help: str
    template: bool
    required: bool
    enum: list[Any] | None


def form_of(data: bytes | str) -> list[FormField] | None:
    """The form of a playbook; None if its text cannot be read."""
    root, problems = read("", data)
    if root is None:
        return None
    spec = root.get("executor")
    for key in ("spec", "schema", "workload"):
        spec = spec.get(key) if isinstance(spec, Map) else None
    workload = root.get("workload")
    form = _Form(problems.text, spec if isinstance(spec, Map) else Map())
    fields = form.fields(workload if isinstance(workload, Map) else Map(), form.schema, ())
    return [field for field, _ in zip(fields, range(MAX_FIELDS), strict=False)]


class _Form(NamedTuple):
    text: Text
    schema: Map
    """Of the whole workload; references lead into it."""

    def fields(self, defaults: Map, schema: Any, path: tuple[str, ...]) -> Iterator[FormField]:
        properties = schema["properties"] if properties_of(schema) else {}
        required = required_by(schema)
        for key in dict.fromkeys([*defaults, *properties]):
            part, value, inner = self._resolved(properties.get(key)), defaults.get(key), (*path, key)
            has_default = key in defaults
            is_open = (isinstance(value, Map) and value) or (not has_default and properties_of(part))
            if is_open and len(inner) < MAX_DEPTH:
                yield from self.fields(value if isinstance(value, Map) else Map(), part, inner)
                continue
            enum = part.get("enum")
            described = part.get("description")
            yield FormField(
                path=".".join(inner),
                type=_type(part, value),
                default=plain(value),
                help=described if isinstance(described, str) else self._comment(defaults, key),
                template=_is_computed(value),
                required=key in required and not has_default,
                enum=plain(enum) if isinstance(enum, list) else None,
            )

    def _resolved(self, schema: Any) -> Map:
        """The schema, or the one to which its reference leads."""
        for _ in range(MAX_DEPTH):
            reference = schema.get("$ref") if isinstance(schema, Map) else None
            if not isinstance(reference, str) or not reference.startswith("#/"):
                break
            schema = self.schema
            for name in reference[2:].split("/"):
                schema = schema.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(schema, Map) else None
        return schema if isinstance(schema, Map) else Map()

    def _comment(self, container: Map, key: str) -> str:
        """The comment in the lines above a key, if the key begins its line."""
        if key not in container.spans:
            return ""
        line, column = self.text.mark(key_span(container, key).start)
        if column > MAX_INDENT or self.text.line(line, MAX_INDENT)[: column - 1].strip():
            return ""
        comment: list[str] = []
        size = 0
        while line > 1 and size < MAX_HELP and (above := self.text.line(line - 1, MAX_HELP).strip()).startswith("#"):
            comment.insert(0, above.lstrip("#").strip())
            size += len(above)
            line -= 1
        return "\n".join(comment).strip()


def _is_computed(default: Any) -> bool:
    """Whether a default has a template in it."""
    if isinstance(default, list):
        return any(map(_is_computed, default))
    return any(map(_is_computed, default.values())) if isinstance(default, dict) else is_template(default)


def _type(schema: Map, default: Any) -> FieldType:
    declared = schema.get("type")
    names = [declared] if isinstance(declared, str) else declared if isinstance(declared, list) else []
    if declared_type := next((name for name in TYPES if name in names), None):
        return declared_type
    values = schema.get("enum")
    example = values[0] if default is None and isinstance(values, list) and values else default
    match example:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "any" if is_template(example) else "string"
        case list():
            return "array"
        case dict():
            return "object"
    return "any"
