"""Reads query strings into the structs that routes declare, and reports errors in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, cast
from urllib.parse import parse_qsl

import msgspec

from noetl.server.parameters import QueryString
from noetl.server.problems import Refused

MAX_PARAMETERS = 50
MAX_QUOTED_CHARACTERS = 100


def read_query(text: bytes, query_type: type[QueryString]) -> QueryString:
    """The query string as a struct; each parameter is declared, and given once unless it is a list."""
    attributes = dict(zip(query_type.__struct_encode_fields__, query_type.__struct_fields__, strict=True))
    values = _values(text, attributes, query_type)
    try:
        query = msgspec.convert(values, query_type, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(422, _reason(query_type, values, str(error))) from None
    for name, value in values.items():  # other spellings are accepted above: 1e3, 1.0, null
        result = getattr(query, attributes[name])
        if not isinstance(result, str | datetime) and str(result).lower() != value:
            raise Refused(422, _invalid(name, value))
    return query


def _values(text: bytes, attributes: Mapping[str, str], query_type: type[QueryString]) -> dict[str, str]:
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except (ValueError, UnicodeDecodeError):
        raise Refused(400, "invalid query string") from None
    values: dict[str, str] = {}
    for name, value in pairs:
        if name not in attributes:
            available = ", ".join(sorted(attributes)) or "none"
            raise Refused(422, f"unknown query parameter {name!r}; available: {available}")
        if name in values and name not in query_type.repeatable:
            raise Refused(422, f"duplicate query parameter {name!r}")
        values[name] = f"{values[name]},{value}" if name in values else value
    return values


def _invalid(name: str, value: str) -> str:
    return f"invalid query parameter {name!r}: {value[:MAX_QUOTED_CHARACTERS]!r}"


def _reason(query_type: type[QueryString], values: Mapping[str, str], error: str) -> str:
    """The error and the expected value, without regular expressions and names of formats."""
    reason, _, name = error.partition(" - at `$.")
    name = name.rstrip("`")
    if name not in values:
        return f"invalid query parameter: {error}"
    fields = cast(msgspec.inspect.StructType, msgspec.inspect.type_info(query_type)).fields
    kind = next(field.type for field in fields if field.encode_name == name)
    return f"{_invalid(name, values[name])}; {_expected(kind, reason)}"


def _expected(kind: Any, reason: str) -> str:
    schema = kind.extra_json_schema if isinstance(kind, msgspec.inspect.Metadata) else None
    description = (schema or {}).get("description", "")
    kinds = list(_plain_kinds(kind))
    if choices := [choice for plain in kinds for choice in _choices(plain)]:
        return f"expected one of: {', '.join(choices)}"
    if any(isinstance(plain, msgspec.inspect.DateTimeType) for plain in kinds):
        return "expected an RFC 3339 time with its offset, such as 2026-01-31T12:00:00Z"
    return (
        f"expected: {description.rstrip('.')}" if "regex" in reason and description else reason[:1].lower() + reason[1:]
    )


def _plain_kinds(kind: Any) -> Iterator[Any]:
    if isinstance(kind, msgspec.inspect.Metadata):
        yield from _plain_kinds(kind.type)
    elif isinstance(kind, msgspec.inspect.UnionType):
        for member in kind.types:
            yield from _plain_kinds(member)
    else:
        yield kind


def _choices(kind: Any) -> list[str]:
    if isinstance(kind, msgspec.inspect.LiteralType):
        return [str(value) for value in kind.values]
    return [str(member.value) for member in kind.cls] if isinstance(kind, msgspec.inspect.EnumType) else []
