"""The forms that are allowed at a place of the document: its keys and its values, from the description of the
language."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from msgspec import inspect

from noetl.assist.loose_reader import PathPart
from noetl.classic.language import CHAIN_TASK, ROOT, TASK_KEYS, ChainItemShape
from noetl.dsl.part_shapes import PipelineShape, TaskShape
from noetl.dsl.shape import Choice, Fields, KindSource, ListOf, MapOf, OneOf, Shape
from noetl.dsl.tree import Map
from noetl.errors import NoetlError
from noetl.model.inputs import InputField, fields, items_inside, keys_inside, literals, type_words
from noetl.model.kind import Kind


class InputValue(NamedTuple):
    """An input of a tool kind, or a part of one."""

    type: inspect.Type


class KindName(NamedTuple):
    """The `kind` of a task."""


class PipelineItem(NamedTuple):
    """A task in a list: with its keys, or below its label."""

    task: TaskShape


class KindDefaults(NamedTuple):
    """Default inputs of a kind in a `spec`."""

    kind: Kind
    options: dict[str, Shape]


Expected: TypeAlias = Shape | InputValue | KindName | PipelineItem | KindDefaults


class KeyEntry(NamedTuple):
    """A key that a map may have."""

    key: str
    words: str
    doc: str
    is_container: bool


class ValueEntry(NamedTuple):
    text: str
    doc: str = ""


class Language:
    """The language with the installed kinds, in the dialect of one document."""

    def __init__(self, kinds: KindSource, *, classic: bool) -> None:
        self.kinds, self.classic = kinds, classic

    def at(self, path: Sequence[PathPart]) -> list[Expected]:
        """The expected form at the end of a path; a last part without a key means its map."""
        expected: list[Expected] = [ROOT]
        for node, key in path:
            if key is None:
                break
            options = self.options(expected, node)
            expected = [inner for option in options for inner in self._inner(option, node, key)]
        return expected

    def options(self, expected: Iterable[Expected], node: Any) -> list[Expected]:
        """The forms that a node may have, as far as it is written."""
        return [option for part in expected for option in self._options(part, node)]

    def _options(self, part: Expected, node: Any) -> Iterator[Expected]:
        if isinstance(part, OneOf):
            forms = [form for form in part.forms if self.classic or form.rewrite is None]
            if node and not isinstance(node, str):
                forms = [form for form in forms if form.applies(node)][:1]
            for form in forms:
                yield from self._options(form.shape, node)
        elif isinstance(part, PipelineShape) and not isinstance(node, list):
            yield part.task
            if not node:
                yield part
        elif isinstance(part, PipelineItem) and (not node or "kind" in node):
            yield part.task
        else:
            yield part

    def keys(self, option: Expected, node: Any) -> Iterator[KeyEntry]:
        """The keys of a map of this form. `node` is the map as far as it is written."""
        match option:
            case Fields():
                yield from self._field_keys(option)
            case TaskShape():
                yield from self._task_keys(option, node)
            case KindDefaults():
                yield from map(_input_entry, fields(option.kind.inputs).values())
                yield from (KeyEntry(key, shape.words, "", False) for key, shape in option.options.items())
            case InputValue():
                yield from map(_input_entry, keys_inside(option.type).values())
            case ChainItemShape():
                yield from (KeyEntry(key, shape.words, "", True) for key, shape in option.special.items())

    def _field_keys(self, shape: Fields) -> Iterator[KeyEntry]:
        for field in shape.fields.values():
            if self.classic or field.rewrite is None:
                yield KeyEntry(field.key, field.shape.words, field.doc, _is_container(field.shape))
        if shape.kinds is not None:
            for name in self.kinds.names():
                yield KeyEntry(name, "a map", f"default inputs of {name}", True)

    def _task_keys(self, shape: TaskShape, node: Any) -> Iterator[KeyEntry]:
        yield KeyEntry("kind", "a tool kind", "the tool to call", False)
        kind = self.kind_of(node)
        for field in fields(kind.inputs).values() if kind is not None else ():
            yield _input_entry(field)
        docs = {"args": "arguments; they overlay the token's", "spec": "options and the policy", "name": "its label"}
        for key, inner in {**shape.keys, **(TASK_KEYS if self.classic else {})}.items():
            yield KeyEntry(key, inner.words, docs.get(key, ""), _is_container(inner))

    def kind_of(self, node: Any) -> Kind | None:
        name = node.get("kind") if isinstance(node, Map) else None
        return self.kinds.get(name) if isinstance(name, str) else None

    def _summary(self, name: str) -> str:
        try:
            kind = self.kinds.get(name)
        except NoetlError:  # a plug-in that cannot be used hides no other kind
            return ""
        return kind.summary if kind is not None else ""

    def _inner(self, option: Expected, node: Any, key: Any) -> Iterator[Expected]:
        match option:
            case Fields():
                yield from self._field(option, key)
            case MapOf():
                yield option.value
            case ListOf():
                yield option.item
            case PipelineShape():
                yield PipelineItem(option.task)
            case PipelineItem():
                yield option.task
            case TaskShape():
                yield from self._task_part(option, node, key)
            case KindDefaults():
                yield from self._input(option.kind, key)
                yield from [option.options[key]] if key in option.options else []
            case InputValue():
                inside = keys_inside(option.type)
                yield from [InputValue(inside[key].type)] if key in inside else []
                yield from map(InputValue, items_inside(option.type))
            case ChainItemShape():
                yield option.special.get(str(key), CHAIN_TASK)

    def _field(self, shape: Fields, key: Any) -> Iterator[Expected]:
        if field := shape.fields.get(key):
            yield field.shape
        elif shape.kinds is not None and isinstance(key, str) and (kind := self.kinds.get(key)) is not None:
            yield KindDefaults(kind, dict(shape.kinds))
        elif shape.rest is not None:
            yield shape.rest

    def _task_part(self, shape: TaskShape, node: Any, key: Any) -> Iterator[Expected]:
        kind = self.kind_of(node)
        if key == "kind":
            yield KindName()
        elif kind is not None and kind.name == "iterator" and key == "tool":
            yield PipelineShape(shape)
        elif kind is not None and key in fields(kind.inputs):
            yield from self._input(kind, key)
        elif part := {**shape.keys, **(TASK_KEYS if self.classic else {})}.get(key):
            yield part

    def _input(self, kind: Kind, key: Any) -> Iterator[Expected]:
        if key in (declared := fields(kind.inputs)):
            yield InputValue(declared[key].type)

    def values(self, option: Expected) -> Iterator[ValueEntry]:
        """The values that a node of this form names."""
        match option:
            case Choice():
                yield from map(ValueEntry, option.choices)
            case KindName():
                yield from (ValueEntry(name, self._summary(name)) for name in self.kinds.names())
            case InputValue():
                yield from map(ValueEntry, literals(option.type))
            case Shape():
                schema = option.schema() if type(option) is Shape else {}
                if schema.get("type") == "boolean" or any(
                    part.get("type") == "boolean" for part in schema.get("anyOf", ())
                ):
                    yield from map(ValueEntry, ("true", "false"))
                elif "const" in schema:
                    yield ValueEntry(schema["const"])


def _input_entry(field: InputField) -> KeyEntry:
    words = type_words(field.type)
    required = ", required" if field.required else ""
    return KeyEntry(field.name, words + required, field.description, bool(keys_inside(field.type)))


def _is_container(shape: Shape) -> bool:
    if isinstance(shape, OneOf):
        return all(_is_container(form.shape) for form in shape.forms)
    return isinstance(shape, Fields | MapOf | ListOf | PipelineShape)
