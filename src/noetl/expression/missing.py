"""Values that are not there, values that are looked up lazily, and how a key is looked up in a value.

`Missing` stands for a name, key or index that does not exist. It chains, is false, equals nothing, and
becomes an error where a value is needed. One instance per place in the source is made when a template is
compiled, so a guard over missing data allocates nothing.

`View` is for objects in a scope that are not plain data: a step's outcome, a reference to a stored result,
a secret. There is no getattr here with a name from a template: an object that is neither plain data nor a
View has no attributes at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SCALARS = frozenset({str, int, float, bool, type(None)})
Contents = Mapping[str, Any] | None
"""Stored values that were loaded for an evaluation, by key."""
CONTENTS_KEY = "contents of references"
"""The scope's key for the Contents that its templates can look into. No template can spell it."""


class Missing:
    """A value that does not exist. `text` is the expression as written, `part` what of it is missing."""

    __slots__ = ("hint", "offset", "part", "text")

    def __init__(self, text: str, offset: int = -1, part: str = "", hint: str = "") -> None:
        self.text, self.offset, self.part, self.hint = text, offset, part, hint

    def __bool__(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return False

    def __ne__(self, other: object) -> bool:
        return True

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Missing({self.text!r})"


NOTHING = Missing("")  # a filter's "there is none"; the closure that called it puts a located one in its place


class View:
    """An object whose fields are looked up when a template asks for them."""

    __slots__ = ()

    def lookup(self, name: str | int, contents: Contents) -> Any:
        """The field, or KeyError."""
        raise KeyError(name)

    def value(self, contents: Contents) -> Any:
        """What the object is where a whole value is needed; itself, if it only has fields."""
        return self

    def passed(self, contents: Contents) -> Any:
        """What the object is where a template only passes it on; a reference need not be opened for that."""
        return self.value(contents)


class Interruption(BaseException):
    """A View may raise a subclass of this to stop an evaluation; it passes through untouched.

    It is not an Exception because every Exception in an evaluation becomes a TemplateError.
    """


class Group(tuple[Any, list[Any]]):
    """An element of `groupby`: unpacks into two, and has the fields `grouper` and `list`."""

    __slots__ = ()


def lookup(value: Any, key: str | int, missing: Missing, contents: Contents) -> Any:
    """value.key or value[key], or `missing`."""
    kind = type(value)
    if kind is dict:
        return value.get(key, missing)
    if kind is list or kind is str or kind is tuple:
        return _at(value, key, missing)
    if isinstance(value, View | Mapping):
        try:
            return value.lookup(key, contents) if isinstance(value, View) else value[key]
        except KeyError:
            return _inside(value, key, missing, contents)
    if kind is Group and key in ("grouper", "list"):
        return value[key == "list"]
    if isinstance(value, list | tuple | str):
        return _at(value, key, missing)
    return missing


def _at(value: Any, key: str | int, missing: Missing) -> Any:
    if type(key) is not int:
        return missing
    try:
        return value[key]
    except IndexError:
        return missing


def _inside(value: Any, key: str | int, missing: Missing, contents: Contents) -> Any:
    """A View without such a field may still be a list with such an index."""
    inner = unwrapped(value, contents)
    return missing if inner is value or isinstance(inner, View) else lookup(inner, key, missing, contents)


def item(value: Any, key: Any, missing: Missing, contents: Contents) -> Any:
    """value[key] for a computed key. Only scalars are keys: hashing a nested tuple can take forever."""
    key = unwrapped(key, contents)
    return lookup(value, key, missing, contents) if type(key) in SCALARS else missing


def unwrapped(value: Any, contents: Contents) -> Any:
    """The plain value of a View, any other value as it is."""
    return value.value(contents) if isinstance(value, View) else value


def kind_of(value: Any) -> str:
    """The kind of a value in the words of a playbook's author."""
    for kinds, word in _WORDS:
        if isinstance(value, kinds):
            return word
    return "an object"


_WORDS: tuple[tuple[Any, str], ...] = (
    (type(None), "null"),
    (bool, "a boolean"),
    (int, "an integer"),
    (float, "a float"),
    (str, "a string"),
    (Mapping, "a map"),
    (list | tuple, "a list"),
    (Missing, "undefined"),
)
