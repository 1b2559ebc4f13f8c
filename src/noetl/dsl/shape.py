"""How a document is described: shapes that check a node and can print themselves as JSON Schema.

A shape reports what is wrong and *removes* it, so that everything after it meets only well-formed parts and one
mistake is reported once. `document.py` describes the whole playbook with these; `schema.py` prints the description.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from itertools import compress
from typing import Any, Literal, NamedTuple, Protocol

from noetl.dsl.inputs import check_keys
from noetl.dsl.other_words import CHOICES, OF_PART, defaults_advice, retry_advice, spec_advice
from noetl.dsl.problem import Check, FixHint, Problems, did_you_mean
from noetl.dsl.tree import Map, Span, is_template, key_span, span_in
from noetl.model.inputs import describe
from noetl.model.kind import Kind

Schema = dict[str, Any]
Test = type | Callable[[Any], bool]
"""The constraint of a value: an instance of a type, or one that a function accepts."""

UNKNOWN_KEY = Check("NTL101", "error", "a key is unknown here", stored_ok=False)
MISSING_KEY = Check("NTL102", "error", "a required key is missing", stored_ok=False)
WRONG_VALUE = Check("NTL103", "error", "a value has the wrong type", stored_ok=False)
TEMPLATE_HERE = Check("NTL508", "error", "a template is not allowed here", stored_ok=False)
MIXED = Check("NTL113", "error", "the classic dialect is mixed with the canonical one", stored_ok=False)
NOT_MIXED = ", of the classic dialect, and cannot be mixed with the newer ones of this playbook"


class KindSource(Protocol):
    def get(self, name: str) -> Kind | None: ...

    def names(self) -> list[str]: ...


class Walk(NamedTuple):
    problems: Problems
    classic: bool
    kinds: KindSource
    defaults: Mapping[str, set[str]]
    """Inputs by kind that an outer scope may supply, so that no task has to."""
    task_keys: Mapping[str, Shape]
    """Keys of a task that only the dialect of the document has."""
    keys: list[tuple[str, str]]
    """The keys that lead to the node, innermost last, each with the part that has it: `timeout` and `task.spec`."""

    def add(self, check: Check, span: Span, message: str, hint: str | None = None) -> None:
        """Report a problem of the node; the message begins with its key."""
        place = "{!r} of {}: ".format(*self.keys[-1]) if self.keys else ""
        self.problems.add(check, span, place + message, hint)


class Shape:
    """Checks one node, and describes it as text and as JSON Schema. `templates`: it may be a template.

    `wrong`: the check and the hint for a value that does not fit, instead of those for a wrong type. `instead`: the
    hint for a template where none is allowed.
    """

    definition: str | None = None  # name under `$defs`, for shapes that are used in many places

    def __init__(
        self,
        words: str,
        fits: Test = object,
        schema: Schema | None = None,
        hint: Callable[[Any], str | None] | None = None,
        templates: bool = False,
        wrong: tuple[Check, str | None] | None = None,
        instead: str | None = None,
    ) -> None:
        self.instead = instead or f"write {words}"
        self.words, self.templates, self.wrong, self._schema, self._hint = words, templates, wrong, schema or {}, hint
        self._fits: Callable[[Any], bool] = fits.__instancecheck__ if isinstance(fits, type) else fits

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        """Report the problems of the node; False if it is unusable as a whole."""
        if self.wrong is not None and not self._fits(value):
            check, advice = self.wrong
            return self.refuse(value, span, walk, check, self._hint(value) if self._hint is not None else advice)
        if is_template(value):
            if not self.templates:
                walk.add(TEMPLATE_HERE, span, "a template is not allowed here", self.instead)
            return self.templates
        if self._fits(value):
            return True
        if self._hint is not None:
            return self.refuse(value, span, walk, hint=self._hint(value))
        quotable = isinstance(value, int | float) and self._fits(str(value))
        quotes = FixHint("put it in quotes", lambda source: f'"{source}"')
        return self.refuse(value, span, walk, hint=quotes if quotable else None)

    def refuse(
        self, value: Any, span: Span, walk: Walk, check: Check = WRONG_VALUE, hint: str | None = None
    ) -> Literal[False]:
        walk.add(check, span, f"expected {self.words}, found {describe(value)}", hint)
        return False

    def schema(self) -> Schema:
        return dict(self._schema)

    def embed(self) -> Schema:
        """The schema where the shape is used: a reference if it is defined apart."""
        return {"$ref": f"#/$defs/{self.definition}"} if self.definition else self.schema()


class Choice(Shape):
    def __init__(self, *choices: str, pattern: str | None = None) -> None:
        def fits(value: Any) -> bool:
            other = pattern is not None and isinstance(value, str) and re.fullmatch(pattern, value) is not None
            return value in choices or other

        def hint(value: Any) -> str:
            if isinstance(value, str) and CHOICES.get(value) in choices:
                return f"write `{CHOICES[value]}`"
            return did_you_mean(value, choices) or f"write one of: {', '.join(choices)}"

        words = " or ".join([", ".join(choices[:-1]), choices[-1]] if len(choices) > 1 else choices)
        schema: Schema = {"enum": list(choices)}
        if pattern is not None:
            schema = {"anyOf": [schema, {"type": "string", "pattern": f"^{pattern}$"}]}
        super().__init__(words, fits, schema, hint)
        self.choices = choices


class Integer(Shape):
    def __init__(self, least: int = 0, most: int = 1 << 40) -> None:
        words = f"a whole number of at least {least}" + (f" and at most {most:,}" if most < 1 << 40 else "")
        schema = {"type": "integer", "minimum": least, "maximum": most}
        super().__init__(words, lambda value: type(value) is int and least <= value <= most, schema)
        self.least, self.most = least, most


class ListOf(Shape):
    def __init__(self, item: Shape, least: int = 0, words: str = "a list", example: str | None = None) -> None:
        super().__init__(words, list, hint=lambda value: example)
        self.item, self.least = item, least

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if not super().check(value, span, walk):
            return False
        if len(value) < self.least:
            walk.problems.add(WRONG_VALUE, span, f"{self.words} is empty", "add an item")
            return False
        drop_items(value, [self.item.check(item, span_in(value, i), walk) for i, item in enumerate(value)])
        return True

    def schema(self) -> Schema:
        return {"type": "array", "items": self.item.embed(), **({"minItems": self.least} if self.least else {})}


def drop_items(seq: Any, usable: Sequence[bool]) -> None:
    seq.lost += [item for item, keep in zip(seq, usable, strict=True) if not keep]
    seq.spans = list(compress(seq.spans, usable))
    seq[:] = compress(seq, usable)


class MapOf(Shape):
    def __init__(self, value: Shape, key: Shape | None = None, example: str | None = None) -> None:
        super().__init__("a map", dict, hint=lambda value: example)
        self.value, self.key = value, key

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if not super().check(value, span, walk):
            return False
        for key in list(value):
            named = self.key is None or self.key.check(key, key_span(value, key), walk)
            if not (self.value.check(value[key], span_in(value, key), walk) and named):
                del value[key]
        return True

    def schema(self) -> Schema:
        names = {"propertyNames": self.key.schema()} if self.key else {}
        return {"type": "object", "additionalProperties": self.value.embed(), **names}


class Field(NamedTuple):
    """One key of a map. A key with a `rewrite` is classic; the text says what to write instead."""

    key: str
    shape: Shape
    doc: str
    required: bool = False
    rewrite: str | None = None


class Retired(NamedTuple):
    """A key of an older language, refused with the way to write it now."""

    check: Check
    message: str
    hint: str
    stands_for: tuple[str, ...] = ()
    """Keys that are not reported as missing if this one is present."""


class Fields(Shape):
    """A map with fixed keys.

    `whole`: without a required key it is unusable. `kinds`: names of tool kinds are keys too; these options are allowed
    among their default inputs. `rest` is the shape of all other keys.
    """

    def __init__(
        self,
        part: str,
        *fields: Field,
        retired: Mapping[str, Retired] | None = None,
        missing: Check = MISSING_KEY,
        wrong: tuple[Check, str | None] | None = None,
        whole: bool = False,
        kinds: Mapping[str, Shape] | None = None,
        rest: Shape | None = None,
        definition: str | None = None,
        hint: Callable[[Any], str | None] | None = None,
    ) -> None:
        super().__init__(f"a map ({part})", dict, hint=hint, wrong=wrong)
        self.part, self.retired, self.missing = part, dict(retired or {}), missing
        self.fields = {field.key: field for field in fields}
        self.whole, self.kinds, self.rest, self.definition = whole, kinds, rest, definition
        self.other_words = OF_PART.get(part, {})

    def extended(self, *fields: Field) -> Fields:
        shape = copy(self)
        shape.fields = self.fields | {field.key: field for field in fields}
        return shape

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        if not super().check(value, span, walk):
            return False
        written = set(value)
        for key in list(value):
            if not self._check_key(value, key, walk):
                del value[key]
        if isinstance(value, Map):
            value.lost |= written - set(value)
        for words in (self.other_words, self.retired):
            written |= {name for key in written - set(self.fields) if key in words for name in words[key].stands_for}
        required = [key for key, field in self.fields.items() if field.required]
        for key in required:
            if key not in written:
                hint = f"add `{key}:`, {self.fields[key].doc}"
                walk.problems.add(self.missing, span, f"{self.part} has no {key!r}", hint)
        return not self.whole or all(key in value for key in required)

    def _check_key(self, value: Any, key: str, walk: Walk) -> bool:
        field = self.fields.get(key)
        if field is not None:
            if field.rewrite is not None and not walk.classic:
                hint = f"{retry_advice(value, key)}, or {field.rewrite}" if key == "retry" else field.rewrite
                walk.problems.add(MIXED, key_span(value, key), f"{key!r} is an older key{NOT_MIXED}", hint)
                return False
            walk.keys.append((key, self.part))
            usable = field.shape.check(value[key], span_in(value, key), walk)
            walk.keys.pop()
            return usable
        if self.kinds is not None and (kind := walk.kinds.get(key)) is not None:
            is_mapping = Shape("a map", dict).check(value[key], span_in(value, key), walk)
            if is_mapping:
                check_keys(value[key], kind, self.kinds, walk)
            return is_mapping
        if retired := self.retired.get(key):
            walk.problems.add(retired.check, key_span(value, key), retired.message, retired.hint)
            return False
        if self.rest is not None:
            return self.rest.check(value[key], span_in(value, key), walk)
        hint = self._advice(value, key, walk)
        walk.problems.add(UNKNOWN_KEY, key_span(value, key), f"{key!r} is not a key of {self.part}", hint)
        return False

    def _keys(self, walk: Walk) -> list[str]:
        return [key for key, field in self.fields.items() if walk.classic or field.rewrite is None]

    def _advice(self, value: Any, key: str, walk: Walk) -> str:
        """The replacement of an unknown key: the same under `spec`, our word for it, or a similar key."""
        keys, spec = self._keys(walk), self.fields.get("spec")
        if spec is not None and isinstance(spec.shape, Fields) and key in spec.shape._keys(walk):
            shape = spec.shape.fields[key].shape
            choices = shape.choices if isinstance(shape, Choice) else ()
            return spec_advice(value, key, choices)
        if key in self.other_words:
            return self.other_words[key].advice(value, key, walk.classic)
        if self.part == "task.spec" and walk.kinds.get(key) is not None:
            return defaults_advice(value, key)
        return walk.problems.did_you_mean(key, keys) or f"known keys: {', '.join(keys)}"

    def schema(self) -> Schema:
        properties = {}
        for key, field in self.fields.items():
            properties[key] = {**field.shape.embed(), "description": field.doc}
            if field.rewrite is not None:
                properties[key]["deprecated"] = True
        required = [key for key, field in self.fields.items() if field.required]
        closed: Schema = {} if self.kinds or self.rest else {"additionalProperties": False}
        return {"type": "object", "properties": properties, **closed, **({"required": required} if required else {})}


class Form(NamedTuple):
    """One way to write a value; classic ones say how to rewrite them."""

    test: Test
    shape: Shape
    rewrite: str | None = None

    def applies(self, value: Any) -> bool:
        return isinstance(value, self.test) if isinstance(self.test, type) else self.test(value)


class OneOf(Shape):
    """A value that may be written in several ways: the first form that applies is checked."""

    def __init__(
        self,
        words: str,
        *forms: Form,
        wrong: Check = WRONG_VALUE,
        hint: Callable[[Any], str | None] = lambda value: None,
    ) -> None:
        super().__init__(words, lambda value: any(form.applies(value) for form in forms))
        self.forms, self._wrong, self._advice = forms, wrong, hint

    def check(self, value: Any, span: Span, walk: Walk) -> bool:
        form = next((form for form in self.forms if form.applies(value)), None)
        if form is None:
            return self.refuse(value, span, walk, self._wrong, self._advice(value))
        if form.rewrite is not None and not walk.classic:
            walk.add(MIXED, span, f"this is the older way to write it{NOT_MIXED}", form.rewrite)
            return False
        return form.shape.check(value, span, walk)

    def schema(self) -> Schema:
        return {"anyOf": [form.shape.embed() for form in self.forms]}
