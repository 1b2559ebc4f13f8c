"""Shapes of single values: names, durations, conditions and the like."""

from __future__ import annotations

import re
from typing import Any

from noetl.dsl.problem import replacing
from noetl.dsl.shape import Schema, Shape
from noetl.model.duration import seconds


def _name(words: str, characters: str) -> Shape:
    pattern = re.compile(f"[A-Za-z_][{characters}]{{0,99}}")

    def fits(value: Any) -> bool:
        return isinstance(value, str) and pattern.fullmatch(value) is not None

    def hint(value: Any) -> str | None:
        candidate = re.sub(r"\W+", "_", str(value)).strip("_")
        return f"for instance {candidate!r}" if fits(candidate) and len(candidate) < 60 else None

    return Shape(words, fits, {"type": "string", "pattern": f"^{pattern.pattern}$"}, hint)


def _boolean_hint(value: Any) -> str | None:
    if isinstance(value, str) and value.lower() in ("yes", "on", "no", "off"):
        word = "true" if value.lower() in ("yes", "on") else "false"
        return replacing(f"in YAML 1.2 {value!r} is text: write {word}", word)
    return None


def _duration(*templates: Schema, instead: str = "write a duration such as 30s, 5m or 2h") -> Shape:
    text: Schema = {"type": "string", "pattern": r"^\s*([0-9]{1,9}(\.[0-9]{1,6})?(ms|s|m|h|d))+\s*$"}
    return Shape(
        "a duration",
        lambda value: seconds(value) is not None,
        {"anyOf": [{"type": "number", "minimum": 0}, text, *templates]},
        lambda value: "write seconds as a number, or a text such as 30s, 5m, 2h or 1h30m",
        templates=bool(templates),
        instead=instead,
    )


_TEMPLATE: Schema = {"type": "string", "pattern": r"\{\{[\s\S]*\}\}"}
DATA = Shape("any value", templates=True)  # free-form, its strings are templates
TEXT = Shape("text", lambda value: isinstance(value, str) and value != "", {"type": "string", "minLength": 1})
DESCRIPTION = Shape("text", str, {"type": "string"}, templates=True)  # for people: nothing in it is special
NAME = _name("a name (letters, digits and `_`, not starting with a digit)", "A-Za-z0-9_")  # templates can refer to it
LABEL = _name("a name (letters, digits, `_`, `-`, `.`)", r"A-Za-z0-9_.\-")  # of a step or task
NUMBER = Shape(
    "a number that is not negative",
    lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value >= 0,
    {"type": "number", "minimum": 0},
)
BOOLEAN = Shape("true or false", bool, {"type": "boolean"}, _boolean_hint)
DURATION, DELAY = _duration(), _duration(_TEMPLATE)
TIME_LIMIT = _duration(instead="write a duration such as 5m; only `spec.timeout` of a task may be a template")
GUARD = Shape(  # a boolean or one expression in braces, which the template checks read
    'a condition such as "{{ ctx.ready }}", or true or false',
    lambda value: isinstance(value, bool | str),
    {"anyOf": [{"type": "boolean"}, _TEMPLATE]},
    templates=True,
)
