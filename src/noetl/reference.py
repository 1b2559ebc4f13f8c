"""References to stored values, by the hash of their content, and their form in JSON.

A `Reference` replaces a large value in events, `ctx` and results. It is recognised by its type, never by its shape. A
template that looks into one needs its content: the evaluation stops with `Need`, the shell loads the content
and evaluates again with it in the scope (`CONTENTS_KEY`). A template that only passes a reference on never loads it.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from noetl.errors import TemplateFailed
from noetl.expression import Contents, Interruption, Sealed, View
from noetl.model.marks import MARK, escaped, unescaped

CHUNKS = "chunks"  # the hint of a reference to a list of the chunks of a loop's results
PREVIEW_CHARACTERS = 120
HOLDS_REFERENCES = "+refs"  # suffix of the hint of a reference whose content contains references
BINARY = "binary"  # the hint of a reference to bytes that are not JSON
KEYCHAIN, SECRET = "keychain", "secret"  # stores that only a worker can open, and only for the inputs of a tool


class Need(Interruption):
    """An evaluation needs the content of a reference."""

    def __init__(self, reference: Reference) -> None:
        super().__init__(reference.key)
        self.reference = reference


class TooLarge(msgspec.Struct):
    """Placeholder for content that exceeds a limit, which it names."""

    limit: str


class Gone(msgspec.Struct):
    """Placeholder for content that cannot be read any more."""

    message: str


class Reference(View):
    """A value by its address. Equal content has an equal key."""

    __slots__ = ("checksum", "key", "preview", "schema_hint", "size", "store")

    def __init__(
        self, store: str, key: str, size: int, checksum: str, schema_hint: str = "", preview: Any = None
    ) -> None:
        self.store, self.key, self.size, self.checksum = store, key, size, checksum
        self.schema_hint, self.preview = schema_hint, preview

    def as_data(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("store", "key", "size", "checksum", "schema_hint", "preview")}

    def stored_at(self, store: str, key: str) -> Reference:
        return Reference(store, key, self.size, self.checksum, self.schema_hint, self.preview)

    def content(self, contents: Contents) -> Any:
        """The value; Need if it is not loaded."""
        if contents is None or self.key not in contents:
            raise Need(self)
        content = contents[self.key]
        if isinstance(content, Gone):
            raise TemplateFailed(content.message)
        if isinstance(content, TooLarge):
            message = f"a stored value of {self.size:,} bytes is too large to load here ({content.limit})"
            hint = "pass it to a task, or store the part that the template needs as a smaller value"
            raise TemplateFailed(message, hint=hint)
        if isinstance(content, bytes):
            raise TemplateFailed("a template cannot read parts of binary content: pass the whole value to a tool")
        return content

    def lookup(self, name: str | int, contents: Contents) -> Any:
        content = self.content(contents)
        if self.is_secret:
            return Sealed(content).lookup(name, contents)
        is_index = isinstance(content, list) and isinstance(name, int) and -len(content) <= name < len(content)
        if is_index or isinstance(content, dict):
            return content[name]
        raise KeyError(name)

    def value(self, contents: Contents) -> Any:
        content = self.content(contents)
        return Sealed(content) if self.is_secret else content

    def passed(self, contents: Contents) -> Reference:
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and other.as_data() == self.as_data()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Reference({self.store!r}, {self.key!r}, {self.size})"

    @property
    def digest(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def is_secret(self) -> bool:
        return self.store in (KEYCHAIN, SECRET)


class KeychainView(View):
    """`keychain` in a template: `keychain.NAME.FIELD` is a reference, never the value itself."""

    __slots__ = ()

    def lookup(self, name: str | int, contents: Contents) -> Any:
        return _KeychainEntry(str(name))


class _KeychainEntry(View):
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def lookup(self, name: str | int, contents: Contents) -> Any:
        return Reference(KEYCHAIN, f"{self.name}.{name}", 0, "", SECRET)

    def value(self, contents: Contents) -> Any:
        raise TemplateFailed(f"keychain.{self.name} is an entry, not a value: name one of its fields")


canonical = msgspec.json.Encoder(order="sorted").encode  # the bytes of a value that are hashed


def reference_to(content: bytes, store: str = "db", hint: str = "", preview: Any = None) -> Reference:
    digest = sha256(content).hexdigest()
    return Reference(store, digest, len(content), f"sha256:{digest}", hint, preview)


def refer(value: Any) -> tuple[Reference, bytes]:
    """A reference to a value, and the bytes to store. Where references are inside, its hint says so."""
    hint = shape_of(value)
    try:
        content = canonical(value)
    except TypeError:
        content, hint = canonical(marked(value)), hint + HOLDS_REFERENCES
    return reference_to(content, "db", hint, preview_of(value)), content


def decoded(content: bytes, reference: Reference) -> Any:
    """The value that is stored as these bytes."""
    if reference.schema_hint == BINARY:
        return content
    value = msgspec.json.decode(content)
    return revived(value) if reference.schema_hint.endswith(HOLDS_REFERENCES) else value


def shape_of(value: Any) -> str:
    """The type of a value, for people."""
    shapes = ((dict, "map"), (list | tuple, "list"), (str, "text"))
    return next((shape for kind, shape in shapes if isinstance(value, kind)), type(value).__name__)


def preview_of(value: Any) -> Any:
    if isinstance(value, str):
        return value[:PREVIEW_CHARACTERS]
    if isinstance(value, dict):
        return {"keys": [str(key)[:40] for key in list(value)[:10]], "count": len(value)}
    if isinstance(value, list | tuple):
        return {"count": len(value)}
    return None


def encode_reference(value: Any) -> Any:
    """For JSON encoders (`enc_hook`): references for readers, without a mark."""
    if isinstance(value, Reference):
        return value.as_data()
    raise TypeError(f"a value of type {type(value).__name__} cannot be encoded as JSON")


encode_json = msgspec.json.Encoder(enc_hook=encode_reference).encode
"""JSON of a value that may have references."""


def marked(value: Any) -> Any:
    """The value with references and keys as JSON has them."""
    if isinstance(value, Reference):
        return {MARK: value.as_data()}
    if isinstance(value, dict):
        return {escaped(key): marked(item) for key, item in value.items()}
    return [marked(item) for item in value] if isinstance(value, list | tuple) else value


def revived(value: Any) -> Any:
    """The value that was marked, also inside structs. ValueError if a mark does not contain a reference."""
    match value:
        case dict():
            if len(value) == 1 and MARK in value:
                try:
                    return Reference(**revived(value[MARK]))
                except TypeError:
                    raise ValueError(f"not a reference: {str(value[MARK])[:100]}") from None
            return {unescaped(key): revived(item) for key, item in value.items()}
        case list():
            return [revived(item) for item in value]
        case tuple():
            return tuple(revived(item) for item in value)
        case msgspec.Struct():
            return type(value)(**{name: revived(getattr(value, name)) for name in value.__struct_fields__})
        case _:
            return value


def encode_inline(value: Any) -> str:
    """The value as JSON text, with its references marked."""
    return canonical(marked(value)).decode()


def decode_inline(text: str) -> Any:
    return revived(msgspec.json.decode(text))
