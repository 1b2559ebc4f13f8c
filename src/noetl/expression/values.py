"""Values that are not plain data, how a key is looked up in a value, and the faults of operations on values.

`Missing` stands for a name, key or index that does not exist. It chains, is false, equals nothing, and becomes an error
where a value is needed. There is one instance per place in the source, so a guard over missing data allocates nothing.

`View` is for objects in a scope: a step's outcome, a reference to a stored result, a secret. There is no getattr here
with a name from a template: an object that is neither plain data nor a View has no attributes at all.

`Sealed` is a secret. Redaction finds secrets in results by their value and its usual encodings, and would not recognise
the result of any other operation: a template can pass a secret on, join it to other text and encode it, nothing else.

An operation does not know its place in the source and raises a `Fault`; the closure that called it knows source and
offset, and raises the public error. Nothing else ever leaves an evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

from noetl.errors import BudgetExceeded, TemplateError, TemplateFailed, TemplateUndefined

SCALARS = frozenset({str, int, float, bool, type(None)})
Contents = Mapping[str, Any] | None  # stored values that were loaded for an evaluation, by key
CONTENTS_KEY = "contents of references"  # the scope's key for its Contents; no template can spell it
ENCODINGS = ("b64encode", "tojson", "urlencode")  # filters whose result redaction recognises
SECRET_MESSAGE = "a secret cannot be taken apart, changed or compared in a template"
SECRET_HINT = f"pass it on as it is, join it to other text with ~, or encode it with {', '.join(ENCODINGS)}"
_MAX_QUOTED = 60
_MAX_NAMES = 12


class Missing:
    """A value that does not exist. `text` is the expression as written, `part` what of it is missing, and `path` the
    keys that lead to that part from the scope, if they are known beforehand."""

    __slots__ = ("hint", "offset", "part", "path", "text")

    def __init__(
        self, text: str, offset: int = -1, part: str = "", hint: str = "", path: tuple[str | int, ...] = ()
    ) -> None:
        self.text, self.offset, self.part, self.hint, self.path = text, offset, part, hint, path

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
    """An object whose fields are looked up when a template reads them."""

    __slots__ = ()
    field_names: ClassVar[tuple[str, ...]] = ()
    """Its fields, if they are always the same."""

    def lookup(self, name: str | int, contents: Contents) -> Any:
        """The field, or KeyError."""
        raise KeyError(name)

    def value(self, contents: Contents) -> Any:
        """The object as a whole value; itself, if it only has fields."""
        return self

    def passed(self, contents: Contents) -> Any:
        """The object where a template only passes it on; a reference need not be opened for that."""
        return self.value(contents)


class Interruption(BaseException):
    """A View may raise a subclass of this to stop an evaluation; it passes through untouched.

    It is not an Exception because every Exception in an evaluation becomes a TemplateError.
    """


class Sealed(View):
    __slots__ = ("content",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, content: Any) -> None:
        self.content = content

    def lookup(self, name: str | int, contents: Contents) -> Any:
        if isinstance(self.content, Mapping) and name in self.content:
            return Sealed(self.content[name])
        raise Fault(SECRET_MESSAGE, SECRET_HINT)

    def value(self, contents: Contents) -> NoReturn:
        raise Fault(SECRET_MESSAGE, SECRET_HINT)

    def passed(self, contents: Contents) -> Sealed:
        return self

    def __eq__(self, other: object) -> bool:
        raise Fault(SECRET_MESSAGE, SECRET_HINT)

    def __repr__(self) -> str:
        return "Sealed(***)"


class Namespace(View):
    """The value of `{% set ns = namespace() %}`. Elsewhere it is a map: the object never leaves the template."""

    __slots__ = ("fields",)

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def lookup(self, name: str | int, contents: Contents) -> Any:
        return self.fields[name]  # type: ignore[index]

    def value(self, contents: Contents) -> Any:
        return dict(self.fields)


class LoopVariable(View):
    __slots__ = ("index0", "items")

    def __init__(self, items: Sequence[Any]) -> None:
        self.items, self.index0 = items, 0

    def lookup(self, name: str | int, contents: Contents) -> Any:
        place, count = self.index0, len(self.items)
        match name:
            case "index":
                return place + 1
            case "index0":
                return place
            case "first":
                return place == 0
            case "last":
                return place == count - 1
            case "length":
                return count
            case "revindex":
                return count - place
            case "revindex0":
                return count - place - 1
            case "previtem" if place > 0:
                return self.items[place - 1]
            case "nextitem" if place < count - 1:
                return self.items[place + 1]
        raise KeyError(name)

    def value(self, contents: Contents) -> Any:
        raise Fault("'loop' is not a value", "use loop.index, loop.first, loop.last, loop.length ...")


class Group(tuple[Any, list[Any]]):
    """An element of `groupby`: unpacks into two, and has the fields `grouper` and `list`."""

    __slots__ = ()


def lookup(value: Any, key: str | int, missing: Missing, contents: Contents) -> Any:
    kind = type(value)
    if kind is dict:
        return value.get(key, missing)
    if isinstance(value, list | tuple | str):
        if kind is Group and key in ("grouper", "list"):
            return value[key == "list"]
        try:
            return value[key] if type(key) is int else missing
        except IndexError:
            return missing
    if isinstance(value, View | Mapping):
        try:
            return value.lookup(key, contents) if isinstance(value, View) else value[key]
        except KeyError:  # a View without such a field may still be a list with such an index
            inner = unwrapped(value, contents)
            return missing if inner is value or isinstance(inner, View) else lookup(inner, key, missing, contents)
    return missing


def unwrapped(value: Any, contents: Contents) -> Any:
    """The plain value of a View, any other value as it is."""
    return value.value(contents) if isinstance(value, View) else value


def refuse_sealed(*values: Any) -> None:
    """Fault if one of the values is a secret. Call it before an operation that reads them."""
    for value in values:
        if type(value) is Sealed:
            raise Fault(SECRET_MESSAGE, SECRET_HINT)


def revealed(value: Any, contents: Contents) -> Any:
    """The value for a tool: unwraps a view or a secret. Does not descend into lists and maps."""
    if isinstance(value, View) and not isinstance(value, Sealed):
        value = value.value(contents)
    return value.content if isinstance(value, Sealed) else value


def kind_of(value: Any) -> str:
    """The kind of a value in the words of a playbook's author."""
    return next((word for kinds, word in _KINDS if isinstance(value, kinds)), "an object")


_KINDS: tuple[tuple[Any, str], ...] = (
    (type(None), "null"),
    (bool, "a boolean"),
    (int, "an integer"),
    (float, "a float"),
    (str, "a string"),
    (Mapping, "a map"),
    (list | tuple, "a list"),
    (Missing, "undefined"),
)


# --- faults


class Fault(Exception):
    """An operation cannot be done; the message is for the author of the playbook."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class OutOfBudget(Fault):
    """The evaluation took too long, grew too large or looped too often."""


class Undefined(Fault):
    """A missing value was needed, for example as text."""

    def __init__(self, missing: Missing) -> None:
        super().__init__("undefined")
        self.missing = missing


def undefined(missing: Missing, source: str, offset: int) -> TemplateUndefined:
    text = missing.text or "this expression"
    hint = missing.hint or "give it a value, or append | default(...)"
    if missing.part and missing.part != missing.text:
        hint = f"'{missing.part}' does not exist; {hint}"
    error = TemplateUndefined(f"'{text}' is undefined", source, max(missing.offset, 0) or offset, hint)
    error.missing = missing.path
    return error


def explain(error: TemplateError, scope: Mapping[str, Any]) -> TemplateError:
    """Add the keys of the map to the error about a missing key."""
    if isinstance(error, TemplateUndefined) and len(error.missing) > 1:
        path, error.missing = error.missing, ()
        contents = scope.get(CONTENTS_KEY)
        try:
            value = scope[str(path[0])]
            for key in path[1:-1]:
                value = lookup(value, key, NOTHING, contents)
            content = _content(value if isinstance(value, View) and value.field_names else unwrapped(value, contents))
        except (KeyError, Fault):
            return error
        owner = "".join(f".{key}" if isinstance(key, str) else f"[{key}]" for key in path[:-1])[1:]
        error.message += f" (`{owner}` {content})" if content else ""
        error.args = (error.message,)
    return error


def _content(value: Any) -> str:
    """The keys or items that a value has, for the error about a missing one."""
    names: Sequence[str] = ()
    if isinstance(value, View):
        names = value.field_names
    elif isinstance(value, Mapping):
        names = [key for key in list(value)[: _MAX_NAMES + 1] if isinstance(key, str)]
    elif isinstance(value, list | tuple):
        return f"has {len(value):,} items" if len(value) != 1 else "has 1 item"
    else:
        return "" if isinstance(value, Missing) else f"is {kind_of(value)}"
    listing = ", ".join(clipped(name) for name in names[:_MAX_NAMES]) + ", ..." * (len(names) > _MAX_NAMES)
    return f"has {listing}" if names else "is empty" if isinstance(value, Mapping) else ""


def located(error: Exception, source: str, offset: int) -> TemplateError:
    """The public error for an exception of an operation at `offset` of `source`."""
    match error:
        case TemplateError():
            return error
        case Undefined():
            return undefined(error.missing, source, offset)
        case OutOfBudget():
            return BudgetExceeded(error.message, source, offset, error.hint)
        case Fault():
            return TemplateFailed(error.message, source, offset, error.hint)
        case MemoryError():
            return BudgetExceeded("the value is too large", source, offset)
        case RecursionError():
            message = "the values are nested too deeply"
        case ZeroDivisionError():
            message = "division by zero"
        case OverflowError():
            message = "the number is too large"
        case _:
            message = f"this cannot be evaluated: {clipped(str(error))}"
    return TemplateFailed(message, source, offset)


def clipped(text: str) -> str:
    """At most 60 characters, so that an error never carries the data it is about."""
    return text if len(text) <= _MAX_QUOTED else text[: _MAX_QUOTED - 3] + "..."
