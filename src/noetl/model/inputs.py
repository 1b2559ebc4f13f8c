"""The inputs of a kind: as text for readers, as JSON Schema for editors, and as a check of literal values.

All three read the kind's input model, so they cannot disagree with it or with each other. The words are
those of YAML: text, number, yes/no, list, map. An author may write a template in the place of any value, so a
string that holds one is never judged; what it becomes is known only when it is rendered.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import inspect

from noetl.model.kind import Kind
from noetl.wording import path_text

Path: TypeAlias = tuple[str | int, ...]  # keys and indexes from an input's value down to a part of it

WORDS: dict[type, str] = {
    inspect.StrType: "text",
    inspect.BoolType: "yes/no",
    inspect.NoneType: "null",
    inspect.IntType: "whole number",
    inspect.FloatType: "number",
    inspect.StructType: "map",
}
SCALARS: dict[type, tuple[type, ...]] = {
    inspect.StrType: (str,),
    inspect.BoolType: (bool,),
    inspect.IntType: (int,),
    inspect.FloatType: (int, float),
    inspect.NoneType: (type(None),),
}
MAX_KEYS = 10
TEMPLATE = {"type": "string", "pattern": r"\{[{%]"}


class InputField(NamedTuple):
    """One input of a kind, or one key of a map inside an input (`tls.verify`, `mounts[].source`)."""

    name: str
    type: inspect.Type
    required: bool
    default: Any  # `msgspec.UNSET` where leaving the input out is not the same as any value of it
    description: str


class InputRow(NamedTuple):
    name: str
    type: str
    required: bool
    default: str  # as written in YAML; empty if there is no useful one
    description: str


class Misfit(NamedTuple):
    """A literal that its input cannot take; `path` leads to it from the input's value."""

    path: Path
    message: str
    choices: tuple[str, ...] = ()
    """The texts that the input takes, if they are few."""
    remedy: str = ""
    takes_list: bool = False
    """Whether a list with the value as its only item would do."""


def describe(value: object) -> str:
    match value:
        case Mapping():
            return "a map"
        case list() | tuple():
            return "a list"
        case bool():
            return f"`{str(value).lower()}`"
        case int() | float():
            return f"the number {value}"
        case None:
            return "nothing"
        case _:
            text = str(value)
            return f"the text {text[:40]!r}{'…' * (len(text) > 40)}"


@cache
def fields(model: type[msgspec.Struct]) -> Mapping[str, InputField]:
    """The inputs of a model by the name an author writes, in the order they are declared."""
    return {field.name: field for field in _fields(inspect.type_info(model))}


def rows(kind: Kind) -> list[InputRow]:
    table = []
    for field in fields(kind.inputs).values():
        nested = [
            part._replace(name=f"{field.name}{suffix}.{part.name}")
            for suffix, struct in _structs(field.type)
            for part in _fields(struct)
        ]
        for name, type_, required, default, description in (field, *nested):
            if default is msgspec.UNSET or default in (None, {}, []):
                text = ""
            else:
                text = default if isinstance(default, str) else msgspec.json.encode(default).decode()
            table.append(InputRow(name, type_words(type_), required, text, description))
    return table


def type_words(kind: inspect.Type) -> str:
    words = [_words(option) for option in _telling(kind)]
    return _joined(words, "," if any(" of " in word for word in words) else "")


def literals(kind: inspect.Type) -> list[str]:
    """The literal values that a type names, as they are written in YAML."""
    values: list[str] = []
    for option in _alternatives(kind):
        if isinstance(option, inspect.LiteralType | inspect.EnumType):
            values += map(str, _choices(option))
        elif isinstance(option, inspect.BoolType):
            values += ["true", "false"]
    return values


def keys_inside(kind: inspect.Type) -> dict[str, InputField]:
    """The keys of the maps that a type can be."""
    structs = (option for option in _alternatives(kind) if isinstance(option, inspect.StructType))
    return {field.name: field for struct in structs for field in _fields(struct)}


def items_inside(kind: inspect.Type) -> list[inspect.Type]:
    """The types of the items of the lists, and of the values of the open maps, that a type can be."""
    return [
        option.item_type if isinstance(option, inspect.CollectionType) else option.value_type
        for option in _alternatives(kind)
        if isinstance(option, inspect.CollectionType | inspect.DictType)
    ]


def schema(kind: Kind) -> dict[str, Any]:
    """JSON Schema of the inputs: `properties`, `required`, and a `oneOf` for each group of alternatives. It has no
    references, so it can be put into a larger schema. Keys that every task has are not in it."""
    whole = msgspec.json.schema(kind.inputs)
    body = _inner({"$ref": whole["$ref"]}, whole["$defs"], ())
    if kind.one_of:
        body["allOf"] = [{"oneOf": [{"required": [name]} for name in group]} for group in kind.one_of]
    return body


def _fields(struct: inspect.Type) -> Iterator[InputField]:
    assert isinstance(struct, inspect.StructType)
    for field in struct.fields:
        default = msgspec.UNSET if field.default is msgspec.NODEFAULT else field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        described, description = field.type, None
        while isinstance(described, inspect.Metadata) and not description:  # a shared field may have one of its own
            description = (described.extra_json_schema or {}).get("description")
            described = described.type
        yield InputField(field.encode_name, field.type, field.required, default, description or "")


def _structs(kind: inspect.Type) -> Iterator[tuple[str, inspect.StructType]]:
    for option in _alternatives(kind):
        match option:
            case inspect.StructType():
                yield "", option
            case inspect.CollectionType(item_type=item):
                yield from ((f"[]{suffix}", struct) for suffix, struct in _structs(item))
            case inspect.DictType(value_type=item):
                yield from ((f".NAME{suffix}", struct) for suffix, struct in _structs(item))


def _alternatives(kind: inspect.Type) -> tuple[inspect.Type, ...]:
    match kind:
        case inspect.Metadata(type=inner):
            return _alternatives(inner)
        case inspect.UnionType(types=types):
            return tuple(option for member in types for option in _alternatives(member))
        case _:
            return (kind,)


def _words(kind: inspect.Type, plural: bool = False) -> str:
    s = "s" if plural else ""
    match kind:
        case inspect.IntType() | inspect.FloatType() | inspect.StructType():
            return f"{WORDS[type(kind)]}{s}"
        case inspect.LiteralType() | inspect.EnumType():
            return f"one of {', '.join(map(str, _choices(kind)))}"
        case inspect.CollectionType(item_type=item):
            return f"list{s}{_of(item)}"
        case inspect.DictType(value_type=item):
            return f"map{s}{_of(item)}"
        case _:
            return WORDS.get(type(kind), "any value")


def _of(item: inspect.Type) -> str:
    kinds = _telling(item)
    if any(isinstance(option, inspect.AnyType) for option in kinds):
        return ""
    if {type(option) for option in kinds} >= {inspect.StrType, inspect.FloatType, inspect.BoolType}:
        containers = [option for option in kinds if isinstance(option, inspect.CollectionType | inspect.DictType)]
        return f" of {_joined(['scalars', *(_words(option, plural=True) for option in containers)])}"
    return f" of {_joined([_words(option, plural=True) for option in kinds])}"


def _telling(kind: inspect.Type) -> list[inspect.Type]:
    """The alternatives to show: not null, and `number` covers whole ones."""
    kinds = [option for option in _alternatives(kind) if not isinstance(option, inspect.NoneType)]
    if any(isinstance(option, inspect.FloatType) for option in kinds):
        kinds = [option for option in kinds if not isinstance(option, inspect.IntType)]
    return kinds


def _joined(words: list[str], comma: str = "") -> str:
    words = list(dict.fromkeys(words))
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])}{comma} or {words[-1]}"


def _choices(kind: inspect.LiteralType | inspect.EnumType) -> tuple[object, ...]:
    return kind.values if isinstance(kind, inspect.LiteralType) else tuple(member.value for member in kind.cls)


def misfit(kind: inspect.Type, value: object, path: Path = ()) -> Misfit | None:
    """The first part of a literal that an input of a type cannot take, or None. Never stricter than the tool itself."""
    if isinstance(value, str) and ("{{" in value or "{%" in value):
        return None
    fitting = [option for option in _alternatives(kind) if _fits(option, value)]
    if not fitting:
        words = [_words(option) for option in _telling(kind)]
        articled = ("list", "map", "number", "whole number")
        words = [f"a {word.partition(' of ')[0]}" if word.startswith(articled) else word for word in words]
        quotes = ": put it in quotes" if isinstance(value, int | float) and "text" in words else ""
        literals = [option for option in _alternatives(kind) if isinstance(option, inspect.LiteralType)]
        choices = tuple(str(choice) for option in literals for choice in option.values)
        return Misfit(
            path,
            f"expected {_joined(words)}, found {describe(value)}{quotes}",
            choices,
            takes_list=_takes_list(kind, value),
        )
    inside = [_inside(option, value, path) for option in fitting]
    return None if None in inside else inside[0]


def _takes_list(kind: inspect.Type, value: object) -> bool:
    lists = [option for option in _alternatives(kind) if isinstance(option, inspect.CollectionType)]
    return any(misfit(option.item_type, value) is None for option in lists)


def rendered_misfit(
    model: type[msgspec.Struct], inputs: Mapping[str, Any], error: msgspec.ValidationError
) -> tuple[str, str]:
    """The name of an invalid rendered input, "" if unknown, and the message, which shows keys of maps but no values:
    they may be secret."""
    place = re.search(r"at `\$\.(\w+)", str(error))
    name = "" if place is None else place[1]
    wrong = misfit(fields(model)[name].type, inputs[name]) if name in fields(model) and name in inputs else None
    if wrong is None:
        return "", str(error)
    value = inputs[name]
    for part in wrong.path:
        value = value[part]
    expected, _, _ = wrong.message.partition(", found")
    remedy = "" if wrong.path or not wrong.takes_list else _list_remedy(name, value)
    return name, f"`{name}{path_text(wrong.path)}`: {expected}, found {_shape(value)}{remedy}"


def _list_remedy(name: str, value: object) -> str:
    if isinstance(value, Mapping) and isinstance(value.get(name), list):
        return f"; write `{{{{ ... .{name} }}}}` for its list"
    return f'; for one value write `{name}: ["{{{{ ... }}}}"]`'


def _shape(value: object) -> str:
    match value:
        case Mapping() if value:
            keys = [str(key) for key in value]
            return f"a map with {', '.join(keys[:MAX_KEYS])}{', ...' * (len(keys) > MAX_KEYS)}"
        case str():
            return "text"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
    return describe(value)


def _fits(kind: inspect.Type, value: object) -> bool:
    """Whether the value has the outer shape of the type; types without a YAML word are left to the tool."""
    if type(kind) in SCALARS:
        types = SCALARS[type(kind)]
        return isinstance(value, types) and (bool in types or not isinstance(value, bool))
    match kind:
        case inspect.LiteralType() | inspect.EnumType():
            return any(value == choice and type(value) is type(choice) for choice in _choices(kind))
        case inspect.CollectionType():
            return isinstance(value, list | tuple)
        case inspect.DictType() | inspect.StructType(array_like=False):
            return isinstance(value, Mapping)
        case _:
            return True


def _inside(kind: inspect.Type, value: Any, path: Path) -> Misfit | None:
    parts: Iterable[Misfit | None] = ()
    match kind:
        case inspect.IntType() | inspect.FloatType():
            bounds = (
                ("at least", kind.ge, operator.ge),
                ("more than", kind.gt, operator.gt),
                ("at most", kind.le, operator.le),
                ("less than", kind.lt, operator.lt),
            )
            broken = [(words, bound) for words, bound, holds in bounds if bound is not None and not holds(value, bound)]
            parts = (Misfit(path, f"expected {words} {bound}, found {value}") for words, bound in broken)
        case inspect.StrType(min_length=int(least)) if len(value) < least:
            return Misfit(path, "expected text, found an empty text", remedy="write a value, or remove the key")
        case inspect.CollectionType(min_length=int(least)) if len(value) < least:
            return Misfit(path, "expected a list with an item, found an empty list", remedy="add an item")
        case inspect.CollectionType(item_type=item):
            parts = (misfit(item, part, (*path, index)) for index, part in enumerate(value))
        case inspect.DictType():
            parts = (_entry(kind, key, part, path) for key, part in value.items())
        case inspect.StructType(array_like=False):
            parts = _keys(kind, value, path)
    return next((wrong for wrong in parts if wrong is not None), None)


def _entry(kind: inspect.DictType, key: object, value: object, path: Path) -> Misfit | None:
    if isinstance(kind.key_type, inspect.StrType) and not isinstance(key, str):
        return Misfit(path, f"expected text as a key, found {describe(key)}: put it in quotes")
    return misfit(kind.value_type, value, (*path, str(key)))


def _keys(struct: inspect.StructType, value: Mapping[Any, object], path: Path) -> Iterator[Misfit | None]:
    declared = {field.name: field for field in _fields(struct)}
    for key, part in value.items():
        if key in declared:
            yield misfit(declared[key].type, part, (*path, key))
        elif struct.forbid_unknown_fields and key != struct.tag_field:
            yield Misfit((*path, str(key)), f"unknown key; the keys are {', '.join(declared)}")
    for name, field in declared.items():
        if field.required and name not in value:
            yield Misfit(path, f"{name!r} is missing")


def _admit(node: dict[str, Any], definitions: dict[str, Any], outer: tuple[str, ...]) -> dict[str, Any]:
    annotations = {key: node[key] for key in ("description", "default", "examples") if node.get(key) is not None}
    shape = {key: value for key, value in node.items() if key not in ("description", "default", "examples")}
    options = [_inner(option, definitions, outer) for option in shape.get("anyOf", [shape])]
    if any(option in ({}, {"type": "string"}) for option in options):
        options = [{}] if {} in options else options
    else:
        options.append(TEMPLATE)
    return (options[0] if len(options) == 1 else {"anyOf": options}) | annotations


def _inner(node: dict[str, Any], definitions: dict[str, Any], outer: tuple[str, ...]) -> dict[str, Any]:
    ref = node.get("$ref")
    if ref in outer:
        return {}  # a model that holds itself: deeper down, anything goes
    if ref is not None:
        return _inner(definitions[ref.removeprefix("#/$defs/")], definitions, (*outer, ref))
    if "properties" in node:
        properties = {name: _admit(part, definitions, outer) for name, part in node["properties"].items()}
        return {key: value for key, value in node.items() if key != "title"} | {"properties": properties}
    return {
        key: _admit(value, definitions, outer)
        if key in ("items", "additionalProperties") and isinstance(value, dict)
        else value
        for key, value in node.items()
    }
